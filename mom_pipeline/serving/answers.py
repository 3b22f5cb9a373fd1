"""Answers about a model, as Python, the commands and HTTP give them; every number is finite."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, computed_field

from mom_pipeline.core.errors import MomError
from mom_pipeline.serving.rates import Difference, Rate
from mom_pipeline.serving.registry import EvaluatedDay, Promotion

_SHOWN_CHARACTERS = 80


class InvalidQuestion(MomError, ValueError):
    """A question outside of its limits."""


class UnknownId(MomError, LookupError):
    """The model does not know what was asked for."""


class UnknownUser(UnknownId):
    """The model has no history of the user."""


class UnknownItem(UnknownId):
    """The model does not know the item."""


class UnknownGroup(UnknownId):
    """No item of the model has the group, or no group of people the name."""


class UnknownEventType(UnknownId):
    """The settings do not say how much events of the type count."""


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
    """An item, its name and the address of its picture, "" where it has none."""

    item: str
    name: str = ""
    image: str = ""


class ScoredItem(NamedItem):
    """An item and its score."""

    score: float


class Recommendation(ScoredItem):
    """One line of a list."""

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


class SimilarItems(ModelAnswer):
    """Items that go with one, best first, by P[both] / sqrt(P[one] P[other])."""

    item: str
    model: str
    items: tuple[ScoredItem, ...]


class Contribution(ModelAnswer):
    """A term of a score, and its share of it. label: of an item, as it is shown."""

    name: str
    label: str = ""
    contribution: float
    share: float


class ExplainedScore(ModelAnswer):
    """A score taken apart three ways, each largest first. seen: the item is in the own history.

    hidden: no list may hold the item.  place: in the user's list of 20, from 1.
    place_by_score: the same without groups and diversity.
    moments: what adds up to the score: pairs, late_pairs, ease, popularity, trend, own; or
        components; and the item's boost.
    components: they sum to the moment `components`.
    history: what the user's own items add, through all but popularity, trend and own.
    """

    user: str
    item: str
    model: str
    score: float
    seen: bool
    hidden: bool
    place: int | None
    place_by_score: int | None
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
    """What the model in use was made of (see `Manifest`), and its size.

    defaults: the settings as they are where nobody and nothing chose others.
    """

    version: str
    day: str
    code_version: str
    data: str
    settings: dict[str, Any]
    defaults: dict[str, Any]
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
    """An item that a user took. weight: how often.  day: the last time, in UTC."""

    weight: float
    day: str


class History(ModelAnswer):
    """What a user took, the newest first. total: how many items there are in all."""

    user: str
    model: str
    total: int
    items: tuple[HistoryEntry, ...]


class TypicalItem(NamedItem):
    """An item and the share of a group's people who took it, with its 95 % interval."""

    taken: float
    taken_interval: tuple[float, float]


class Group(ModelAnswer):
    """People of one component. people, size: how many, and their share of all, with its interval.

    agreement: of two halves of the people, each fitted for itself; None where not known.
    uncertain: halves with nothing in common agree as well on some component.
    items: what sets them apart.  by_day: their share of the people of the week up to each day.
    change, change_error: of that share in four weeks, and the half of its 95 % interval.
    place: x, y and radius on a map of side 1, on which no group covers another.
    """

    number: int
    name: str
    people: int
    size: float
    size_interval: tuple[float, float]
    agreement: float | None
    uncertain: bool
    items: tuple[TypicalItem, ...]
    by_day: tuple[float, ...]
    change: float | None
    change_error: float | None
    place: tuple[float, ...]


class Groups(ModelAnswer):
    """The groups, the largest first. people: how many there are.  days: those of `by_day`.

    unsupported: how many more the model has, on which two halves of the people do not agree.
    supported: how many directions of the second moment are clear of chance, and about how many were
    with twice as many people; None where not known.
    from_sample: sizes are those of so many of the people; None for all.
    """

    model: str
    people: int
    unsupported: int
    supported: int | None
    supported_by_twice: int | None
    from_sample: int | None
    days: tuple[str, ...]
    groups: tuple[Group, ...]


class NextItem(NamedItem):
    """An item and the share of a group's lists, and of everybody's (usual), that hold it."""

    share: float
    usual: float


class GroupPage(Group):
    """One group, against everybody or another one.

    by_day_interval: of `by_day`.  next: what lists of its people hold more often than usual.
    at_least, members: how many people belong to it with at least this probability.
    against: the other group; "" for everybody.  apart: what the group takes more, and
    the_other_takes: less.
    """

    model: str
    days: tuple[str, ...]
    by_day_interval: tuple[tuple[float, float], ...]
    next: tuple[NextItem, ...]
    at_least: float
    members: int
    against: str
    apart: tuple[TypicalItem, ...]
    the_other_takes: tuple[NamedItem, ...]


class GroupShare(ModelAnswer):
    """A group's share of the people who took an item, and of all people (usual)."""

    number: int
    name: str
    share: float
    usual: float


class ItemUse(NamedItem):
    """Who takes an item. taken_by: the share of all people.  groups: of the catalogue.

    by_day: how many people took it last on each of the days.
    expected: nobody took it yet, and `by_group` is what is expected from its groups and words.
    """

    model: str
    expected: bool
    url: str
    groups: tuple[str, ...]
    taken_by: float
    by_group: tuple[GroupShare, ...]
    days: tuple[str, ...]
    by_day: tuple[float, ...]


class ModelChanges(ModelAnswer):
    """Changes of the model in use, the newest first."""

    changes: tuple[Promotion, ...]


class Evaluations(ModelAnswer):
    """How good the lists were, the oldest day first."""

    days: tuple[EvaluatedDay, ...]


class ShopItemSaid(ModelAnswer):
    """What the shop says of an item, from now on in every list."""

    item: str
    hidden: bool
    boost: float


class TrialState(ModelAnswer):
    """A version on trial, the share of the users it answers, and what came of it."""

    version: str
    share: float
    since: str
    result: Difference


class ShownRates(ModelAnswer):
    """How often people took what they were shown, by day, version and place."""

    rates: tuple[Rate, ...]
    trial: TrialState | None


class Error(ModelAnswer):
    """Why there is no answer."""

    error: str
