"""The model in use, loaded anew by a thread that watches the registry; and a version on trial.

A new champion is loaded beside the old one, then one reference is swapped. A question takes the
reference once and is answered by that model to its end. What the shop says of its items is watched
too, and changes the rules of the models that are loaded.
"""

import threading
import time
from collections.abc import Callable
from typing import Self

from mom_pipeline.core.errors import DamagedModel
from mom_pipeline.errors import MomError
from mom_pipeline.serving.events import EventStore
from mom_pipeline.serving.rates import Trial
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry, NoChampion, UnknownVersion
from mom_pipeline.serving.rules import Rules, rules_stamp
from mom_pipeline.settings import Settings

_LOOK_EVERY_SECONDS = 0.25
# A champion that could not be loaded is tried again after a while: it may be restored.
_RETRY_SECONDS = 10.0
NO_MODEL = "no model is promoted yet; run `mom-pipeline update`"


class Champion:
    """The model in use now; a context manager that watches the registry while it is open.

    problem: why the promoted model is not the one in use.
    loads: False where another process loads a new champion, and this one is to be replaced.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None] = lambda said: None) -> None:
        self.registry, self.settings = ModelRegistry(settings.models_dir), settings
        self.events, self.say = EventStore(settings), say
        self.problem: str | None = None
        self.loads = True
        self._said: str | None = None
        self._rules_problem: str | None = None
        self.trial: Trial | None = None
        self._read_rules()
        self._current: Recommender | None = None
        self._tried: Recommender | None = None
        self._failed: tuple[str | None, float] = None, 0.0  # the version, and when to try again
        self._stop, self._looking = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="champion", daemon=True)

    def __enter__(self) -> Self:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop.set()
        self._thread.join()

    def recommender(self, user: str | None = None) -> Recommender:
        """The model in use, or on trial for a user; NoChampion when there has been none yet.

        A version that is gone knew people who are erased: it answers nothing more.
        """
        model = self._of(user)
        if model is not None and not self.registry.has(model.version):
            self.look()
            model = self._of(user)
            if model is not None and not self.registry.has(model.version):
                raise NoChampion(f"{model.version} is gone by an erasure; the next is being loaded")
        if model is None:
            raise NoChampion(self.problem or NO_MODEL)
        return model

    def _of(self, user: str | None) -> Recommender | None:
        trial, tried = self.trial, self._tried
        return tried if user is not None and trial and tried and trial.has(user) else self._current

    def version(self) -> str | None:
        """Return the version in use; None before there is one."""
        current = self._current
        return None if current is None else current.version

    def knows(self, item: str) -> bool:
        """Whether an item is of this shop: of the model, or of what was said of items."""
        current, items = self._current, self._rules.catalogue.items
        if current is None and not items:
            return True
        in_model = current is not None and current.has_item(item)
        return in_model or item in items or item in self._rules.said_of

    @property
    def shows_pictures(self) -> bool:
        """Whether items.csv names pictures, which lie elsewhere."""
        return any(entry.image for entry in self._rules.catalogue.items.values())

    def look(self) -> str | None:
        """Take up other rules, a trial, another champion; return the version in use.

        What cannot be read changes nothing.
        """
        with self._looking:
            said = self._look_at_rules() or self._look_at_trial()
            self.problem = self._look_at_champion() or said
            if self.loads and self.problem and self.problem != self._said:
                self.say(self.problem)
            self._said = self.problem
            return self.version()

    def _read_rules(self) -> None:
        self._stamp = rules_stamp(self.settings)
        self._rules = Rules.of(self.settings)

    def _look_at_rules(self) -> str | None:
        if rules_stamp(self.settings) != self._stamp:
            try:
                self._read_rules()
                self._current, self._tried = (
                    model and model.with_rules(self._rules)
                    for model in (self._current, self._tried)
                )
                self._rules_problem = None
            except MomError as error:
                self._rules_problem = f"the rules of lists stay as they were: {error}"
        return self._rules_problem

    def _look_at_trial(self) -> str | None:
        trial = self.registry.trial()
        try:
            if trial and (self._tried is None or self._tried.version != trial.version):
                self._tried = self._loaded(trial.version)
        except (DamagedModel, UnknownVersion) as error:
            self.trial, self._tried = None, None
            return f"the version on trial cannot be used: {error}"
        self.trial, self._tried = trial, self._tried if trial else None
        return None

    def _look_at_champion(self) -> str | None:
        version, kept = None, self.version()
        try:
            version = self.registry.champion_version()
            failed, retry_at = self._failed
            if failed is not None and version == failed and time.monotonic() < retry_at:
                return self.problem
            if version not in (None, kept):
                if not self.loads:
                    return f"{version} is promoted; {kept or 'none'} answers until it is loaded"
                self._current = self._loaded(str(version))
                self.say(f"Model {version} is in use.")
            self._failed = None, 0.0
        except Exception as error:
            # Whatever it is, the model before keeps answering, and the watch goes on.
            still = "nothing can be answered" if kept is None else f"{kept} stays in use"
            self._failed = version, time.monotonic() + _RETRY_SECONDS
            return f"the promoted model {version or ''} cannot be used, {still}: {error}"
        return None

    def _loaded(self, version: str) -> Recommender:
        served = self.registry.load(version)
        return Recommender(served, self._rules, since=self.events.since)

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_SECONDS):
            self.look()
