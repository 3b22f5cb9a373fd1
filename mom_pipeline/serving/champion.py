"""The model in use, loaded anew by a thread that watches the registry.

A new champion is loaded beside the old one, then one reference is swapped. A question takes the
reference once and is answered by that model to its end.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry, NoChampion, Promotion

LOOK_EVERY_SECONDS = 0.25
# A champion that could not be loaded is tried again after so many looks: it may be restored.
_LOOKS_UNTIL_RETRY = 40
NO_MODEL = "no model is promoted yet; run `mom-pipeline update`"


class Champion:
    """The model in use now; a context manager that watches the registry while it is open."""

    def __init__(
        self,
        registry: ModelRegistry,
        rules: Mapping[str, Any] | None = None,
        on_change: Callable[[str], None] = lambda message: None,
    ) -> None:
        """Watch a registry. rules: of `list_rules`."""
        self._registry = registry
        self._rules = dict(rules or {})
        self._on_change = on_change
        self._current: Recommender | None = None
        self._failed_version: str | None = None
        self._looks_since_failure = 0
        self.problem: str | None = None  # why the promoted model is not the one in use
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="champion", daemon=True)

    def __enter__(self) -> Self:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop.set()
        self._thread.join()

    def recommender(self) -> Recommender:
        """The model in use; NoChampion when there has been none yet."""
        current = self._current
        if current is None:
            raise NoChampion(self.problem or NO_MODEL)
        return current

    def version(self) -> str | None:
        """Return the version in use; None before there is one."""
        current = self._current
        return None if current is None else current.version

    def history(self) -> list[Promotion]:
        """Every change of the champion, oldest first."""
        return self._registry.history()

    def look(self) -> None:
        """Load the champion if it is another one; what cannot be loaded changes nothing."""
        version = None
        try:
            version = self._registry.champion_version()
            if version is None or version == self.version():
                self.problem = None
                return
            if self.problem is not None and self._failed_version == version:
                self._looks_since_failure += 1
                if self._looks_since_failure < _LOOKS_UNTIL_RETRY:
                    return
            served = self._registry.load(version)
            self._current = Recommender(served, **self._rules)
        except Exception as error:
            # Whatever it is, the model before keeps answering, and the watch goes on.
            self._fail(version, error)
            return
        self.problem = None
        self._on_change(f"Model {version} is in use.")

    def _fail(self, version: str | None, error: Exception) -> None:
        kept = self.version()
        still = "nothing can be answered" if kept is None else f"{kept} stays in use"
        message = f"the promoted model {version or ''} cannot be used, {still}: {error}"
        if self.problem != message:
            self._on_change(message)
        self._failed_version, self._looks_since_failure, self.problem = version, 0, message

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_EVERY_SECONDS):
            self.look()
