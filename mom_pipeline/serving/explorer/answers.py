"""Answers that the explorer asks for beside the lists."""

from mom_pipeline.serving.answers import Answer


class NamedItem(Answer):
    """An item and its name, "" where it has none."""

    item: str
    name: str = ""


class Matches(Answer):
    """Users and items whose id, or name, holds a text; without one, the most active ones."""

    model: str
    users: tuple[str, ...]
    items: tuple[NamedItem, ...]


class HistoryEntry(NamedItem):
    """An item that a user took. weight: how often; less where it was long ago."""

    weight: float


class History(Answer):
    """What a user took, what counts most first. total: how many items there are in all."""

    user: str
    model: str
    total: int
    items: tuple[HistoryEntry, ...]


class MapComponent(Answer):
    """A component: where it stands, its weight, and the items that it shows most often.

    drift: total variation since the day before, for each of the map's days.
    """

    number: int
    x: float
    y: float
    weight: float
    items: tuple[NamedItem, ...]
    drift: tuple[float, ...]


class MapItem(NamedItem):
    """An item: the middle and the radius of its circle, its share of all that is taken.

    component: the number of the one that it belongs to most; share: by how much.
    """

    x: float
    y: float
    radius: float
    popularity: float
    component: int
    share: float


class ComponentMap(Answer):
    """The components on a circle of radius 1, and items between those that they belong to.

    days: for which the drift of every component is known, oldest first.
    """

    model: str
    components: tuple[MapComponent, ...]
    items: tuple[MapItem, ...]
    days: tuple[str, ...]


class Change(Answer):
    """A change of the model in use: what the gate, or a person, decided and why."""

    version: str
    time: str
    kind: str
    reason: str
    by: str


class Changes(Answer):
    """Changes of the model in use, the newest first."""

    changes: tuple[Change, ...]
