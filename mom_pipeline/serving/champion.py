"""The model in use, loaded anew by a thread that watches the registry.

A new champion is loaded beside the old one, then one reference is swapped. A question takes the
reference once and is answered by that model to its end.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry, NoChampion

_LOOK_EVERY_SECONDS = 0.25
# A champion that could not be loaded is tried again after a while: it may be restored.
_RETRY_SECONDS = 10.0
NO_MODEL = "no model is promoted yet; run `mom-pipeline update`"


class Champion:
    """The model in use now; a context manager that watches the registry while it is open.

    rules: of `list_rules`.  problem: why the promoted model is not the one in use.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        rules: Mapping[str, Any] | None = None,
        on_change: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.registry = registry
        self.problem: str | None = None
        self._rules = dict(rules or {})
        self._on_change = on_change
        self._current: Recommender | None = None
        self._failed: tuple[str | None, float] = None, 0.0  # the version, and when to try again
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

    @property
    def shows_pictures(self) -> bool:
        """Whether items.csv names pictures, which lie elsewhere."""
        catalogue: Catalogue = self._rules.get("catalogue", Catalogue())
        return any(entry.image for entry in catalogue.items.values())

    def look(self) -> None:
        """Load the champion if it is another one; what cannot be loaded changes nothing."""
        version, kept = None, self.version()
        try:
            version = self.registry.champion_version()
            failed, retry_at = self._failed
            if failed is not None and version == failed and time.monotonic() < retry_at:
                return
            if version not in (None, kept):
                self._current = Recommender(self.registry.load(str(version)), **self._rules)
                self._on_change(f"Model {version} is in use.")
            self.problem, self._failed = None, (None, 0.0)
        except Exception as error:
            # Whatever it is, the model before keeps answering, and the watch goes on.
            still = "nothing can be answered" if kept is None else f"{kept} stays in use"
            problem = f"the promoted model {version or ''} cannot be used, {still}: {error}"
            if self.problem != problem:
                self._on_change(problem)
            self.problem, self._failed = problem, (version, time.monotonic() + _RETRY_SECONDS)

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_SECONDS):
            self.look()
