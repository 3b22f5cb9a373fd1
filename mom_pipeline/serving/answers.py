"""Answers about a model, as Python, the commands and HTTP give them; every number is finite."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, computed_field

from mom_pipeline.core.errors import MomError
from mom_pipeline.serving.registry import Promotion

_SHOWN_CHARACTERS = 80


class InvalidQuestion(MomError, ValueError):
    """A question outside of its limits."""


class UnknownUser(MomError, LookupError):
    """The model has no history of the user."""


class UnknownItem(MomError, LookupError):
    """The model does not know the item."""


class UnknownGroup(MomError, LookupError):
    """No item of the model has the group."""


def shown(name: str) -> str:
    """An id as it may stand in a sentence: quoted, without control characters, short."""
    text = ascii(name) if not name.isprintable() else repr(name)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


class ModelAnswer(BaseModel):
    """What all answers have in common: they do not change, and hold no NaN and no infinity."""

    # Fields with a default are always there as well.
    model_config = ConfigDict(
        frozen=True,
        allow_inf_nan=False,
        extra="forbid",
        json_schema_serialization_defaults_required=True,
    )


class Reason(ModelAnswer):
    """What contributed most to a score, and its share of it.

    kind: an item of the own history, a component of the model, popularity, or a rising item.
    name: the item's id, or the component's number.  label: the item as it is shown.
    examples: of a component, the items that it shows most often, as they are shown.
    """

    kind: Literal["item", "component", "popularity", "trend"]
    name: str
    share: float
    label: str = ""
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind == "item":
            return f"{self.label or self.name} ({self.share:.0%})"
        if self.kind == "component":
            return f"component {self.name} ({self.share:.0%}): {', '.join(self.examples)}"
        return "rising" if self.kind == "trend" else "popular"


class NamedItem(ModelAnswer):
    """An item and its name, "" where it has none."""

    item: str
    name: str = ""


class Recommendation(NamedItem):
    """One line of a list."""

    score: float
    reason: Reason


class Recommendations(ModelAnswer):
    """A list, best first; short when there is nothing more to recommend.

    user: None for somebody known by items alone.  model: its version.
    fallback: the list is of popular items, because `note` says so.
    unknown_items: of the question, those that the model does not know.
    """

    user: str | None
    model: str
    fallback: bool
    note: str
    items: tuple[Recommendation, ...]
    unknown_items: tuple[str, ...] = ()


class ManyRecommendations(ModelAnswer):
    """The lists of several users, in the order of the question."""

    model: str
    lists: tuple[Recommendations, ...]


class SimilarItem(NamedItem):
    """An item and P[both] / sqrt(P[one] P[other])."""

    score: float


class SimilarItems(ModelAnswer):
    """Items that go with one, best first."""

    item: str
    model: str
    items: tuple[SimilarItem, ...]


class Contribution(ModelAnswer):
    """A term of a score, and its share of it. label: of an item, as it is shown."""

    name: str
    label: str = ""
    contribution: float
    share: float


class ExplainedScore(ModelAnswer):
    """A score taken apart three ways, each largest first. seen: the item is in the own history.

    moments: what adds up to the score: pairs, ease, popularity, trend, own, or components.
    components: they sum to the moment `components`.
    history: what the user's own items contribute, through the components too; with popularity,
        they sum to the score.
    """

    user: str
    item: str
    model: str
    score: float
    seen: bool
    reason: Reason
    moments: tuple[Contribution, ...]
    components: tuple[Contribution, ...]
    history: tuple[Contribution, ...]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def strongest_item(self) -> str | None:
        """The item of the own history that contributed most."""
        return self.history[0].name if self.history else None


class ModelInUse(ModelAnswer):
    """What the model in use was made of (see `Manifest`), and its size."""

    version: str
    day: str
    code_version: str
    data: str
    settings: dict[str, Any]
    parents: dict[str, str]
    metrics: dict[str, float]
    users: int
    items: int


class Health(ModelAnswer):
    """Whether a model is in use, and whether it is the promoted one."""

    status: Literal["ok", "degraded", "unavailable"]
    model: str | None
    problem: str | None


class Matches(ModelAnswer):
    """Users and items that a search found. more: whether there are more than were asked for."""

    model: str
    users: tuple[str, ...]
    items: tuple[NamedItem, ...]
    more: bool


class HistoryEntry(NamedItem):
    """An item that a user took. weight: how often; less where it was long ago."""

    weight: float


class History(ModelAnswer):
    """What a user took, what counts most first. total: how many items there are in all."""

    user: str
    model: str
    total: int
    items: tuple[HistoryEntry, ...]


class MapComponent(ModelAnswer):
    """A component: its place, weight and most frequent items, and its drift day by day."""

    number: int
    x: float
    y: float
    weight: float
    items: tuple[NamedItem, ...]
    drift: tuple[float, ...]


class MapItem(NamedItem):
    """An item: its circle, its share of all taken, the component it belongs to most, how much."""

    x: float
    y: float
    radius: float
    popularity: float
    component: int
    share: float


class ComponentMap(ModelAnswer):
    """The components on a circle of radius 1, items between them; days: those of the drift."""

    model: str
    components: tuple[MapComponent, ...]
    items: tuple[MapItem, ...]
    days: tuple[str, ...]


class ModelChanges(ModelAnswer):
    """Changes of the model in use, the newest first."""

    changes: tuple[Promotion, ...]


class Error(ModelAnswer):
    """Why there is no answer."""

    error: str
