"""What a question about a model is answered with."""

from dataclasses import dataclass
from typing import Literal

ReasonKind = Literal["item", "component", "popularity"]


@dataclass(frozen=True)
class Reason:
    """What contributed most to a score.

    kind: an item of the own history, a component of the model, or plain popularity.
    name: the item's id, or the component's number.  share: of the score.
    examples: of a component, the items that it shows most often.
    """

    kind: ReasonKind
    name: str
    share: float
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind == "item":
            return f"{self.name} ({self.share:.0%})"
        if self.kind == "component":
            return f"component {self.name} ({self.share:.0%}): {', '.join(self.examples)}"
        return "popular"


@dataclass(frozen=True)
class Recommendation:
    """One line of a list."""

    item: str
    score: float
    reason: Reason


@dataclass(frozen=True)
class Recommendations:
    """A list, best first; short when there is nothing more to recommend.

    user: None for somebody known by items alone.  model: its version.
    fallback: the list is of popular items, because `note` says so.
    unknown_items: of a question by items, those that the model does not know.
    """

    user: str | None
    model: str
    fallback: bool
    note: str
    items: tuple[Recommendation, ...]
    unknown_items: tuple[str, ...] = ()


@dataclass(frozen=True)
class SimilarItem:
    """An item and P[both] / sqrt(P[one] P[other])."""

    item: str
    score: float


@dataclass(frozen=True)
class SimilarItems:
    """Items that go with one, best first."""

    item: str
    model: str
    items: tuple[SimilarItem, ...]


@dataclass(frozen=True)
class Contribution:
    """A term of a score. share: of the score."""

    name: str
    contribution: float
    share: float


@dataclass(frozen=True)
class Explanation:
    """A score taken apart, three ways.

    seen: the item is in the user's own history.
    reason: what contributed most, as the lists say it.
    moments: popularity, pairs, inverse, low-pass, classes; they sum to the score.
    components: they sum to the moment `classes`; largest first.
    history: what the user's own items contribute, through the classes too, largest first; with
        popularity, they sum to the score.
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

    @property
    def strongest_item(self) -> str | None:
        """Return the item of the own history that contributed most."""
        return self.history[0].name if self.history else None
