"""The promoted model in a long-lived process: replaced while questions are being answered.

A thread of its own looks at the pointer, loads a new champion beside the old one, and swaps
one reference. A question takes the reference once and is answered by that model to its end.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry, NoChampion

LOOK_EVERY_SECONDS = 0.25
# A champion that could not be loaded is tried again after so many looks: it may be restored.
_LOOKS_UNTIL_RETRY = 40


@dataclass(frozen=True)
class _Failure:
    """A champion that could not be loaded."""

    version: str | None
    message: str


class Champion:
    """The model in use now; a context manager that watches the registry meanwhile."""

    def __init__(
        self,
        registry: ModelRegistry,
        *,
        exclude_seen: bool = True,
        on_change: Callable[[str], None] = lambda message: None,
    ) -> None:
        self._registry = registry
        self._exclude_seen = exclude_seen
        self._on_change = on_change
        self._current: Recommender | None = None
        self._failure: _Failure | None = None
        self._looks_since_failure = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="champion", daemon=True)

    def __enter__(self) -> Self:
        self.look()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def problem(self) -> str | None:
        """Say why the promoted model is not the one in use; None when it is."""
        failure = self._failure
        return None if failure is None else failure.message

    def recommender(self) -> Recommender:
        """Return the model in use; NoChampion when there has been none yet."""
        current = self._current
        if current is None:
            problem = self.problem or "no model is promoted yet; run `mom-pipeline update`"
            raise NoChampion(problem)
        return current

    def version(self) -> str | None:
        """Return the version in use."""
        current = self._current
        return None if current is None else current.manifest.version

    def look(self) -> None:
        """Load the champion if it is another one; what cannot be loaded changes nothing."""
        version = None
        try:
            version = self._registry.champion_version()
            if version is None or version == self.version():
                self._failure = None
                return
            if self._failure is not None and self._failure.version == version:
                self._looks_since_failure += 1
                if self._looks_since_failure < _LOOKS_UNTIL_RETRY:
                    return
            served = self._registry.load(version)
            self._current = Recommender(served, exclude_seen=self._exclude_seen)
        except Exception as error:
            # Whatever it is, the model before keeps answering, and the watch goes on.
            self._fail(version, error)
            return
        self._failure = None
        self._on_change(f"Model {version} is in use.")

    def _fail(self, version: str | None, error: Exception) -> None:
        kept = self.version()
        still = "nothing can be answered" if kept is None else f"{kept} stays in use"
        message = f"the promoted model {version or ''} cannot be used, {still}: {error}"
        self._looks_since_failure = 0
        if self._failure is None or self._failure.message != message:
            self._on_change(message)
        self._failure = _Failure(version, message)

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_EVERY_SECONDS):
            self.look()
