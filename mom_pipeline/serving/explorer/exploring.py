"""What the explorer shows of one model beside its lists: matches, histories, the map."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.serving.answers import UnknownUser, shown
from mom_pipeline.serving.explorer import layout
from mom_pipeline.serving.explorer.answers import (
    ComponentMap,
    History,
    HistoryEntry,
    MapComponent,
    MapItem,
    Matches,
    NamedItem,
)
from mom_pipeline.serving.explorer.search import TextIndex
from mom_pipeline.serving.served_model import ServedModel

_EXAMPLES = 5


class Explorer:
    """One model to look around in; what takes long is computed when it is asked for first."""

    def __init__(self, served: ServedModel, catalogue: Catalogue) -> None:
        self._served = served
        self._catalogue = catalogue

    def search(self, text: str, n: int) -> Matches:
        """Users by id and items by name or id; without a text, the most active and popular."""
        served = self._served
        if text:
            users = self._user_index.search(text, n)
            items = [*self._item_index.search(text, n), *self._name_index.search(text, n)]
            items = list(dict.fromkeys(items))[:n]
        else:
            lengths = np.diff(served.histories.indptr).astype(np.float64)
            users = _largest(lengths, n)
            items = _largest(served.model.popularity, n)
        return Matches(
            model=served.manifest.version,
            users=tuple(str(served.user_ids[u]) for u in users),
            items=tuple(self._named(y) for y in items),
        )

    def history(self, user: str, n: int) -> History:
        """What a user took; UnknownUser when the model has nothing of them."""
        served = self._served
        position = served.user_positions.get(user)
        if position is None:
            raise UnknownUser(f"the model does not know the user {shown(user)}")
        X = served.histories
        own = slice(int(X.indptr[position]), int(X.indptr[position + 1]))
        items, weights = X.indices[own], X.data[own]
        order = np.argsort(-weights, kind="stable")[:n]
        return History(
            user=user,
            model=served.manifest.version,
            total=len(items),
            items=tuple(
                HistoryEntry(**self._named(int(items[i])).model_dump(), weight=float(weights[i]))
                for i in order
            ),
        )

    def map(self, drift_by_day: dict[str, list[float]]) -> ComponentMap:
        """The components and their items. drift_by_day: ISO day -> (K,)."""
        components, items = self._places
        drift = {d: row for d, row in drift_by_day.items() if len(row) == len(components)}
        return ComponentMap(
            model=self._served.manifest.version,
            components=tuple(
                component.model_copy(update={"drift": tuple(row[k] for row in drift.values())})
                for k, component in enumerate(components)
            ),
            items=items,
            days=tuple(drift),
        )

    @cached_property
    def _places(self) -> tuple[tuple[MapComponent, ...], tuple[MapItem, ...]]:
        model = self._served.model
        O, pi = model.item_probs, model.weights
        shown_items = layout.shown_items(O, model.popularity)
        centres, shares = (
            layout.component_places(O),
            layout.shares_of_components(O[shown_items], pi),
        )
        popularity = model.popularity[shown_items]
        radius = layout.radii(popularity)
        places = layout.moved_apart(shares @ centres, radius)
        examples, probs = top_n(O.T, min(_EXAMPLES, len(O)))
        components = tuple(
            MapComponent(
                number=k + 1,
                x=float(centres[k, 0]),
                y=float(centres[k, 1]),
                weight=float(pi[k]),
                items=tuple(
                    self._named(y)
                    for y, p in zip(examples[k].tolist(), probs[k].tolist(), strict=True)
                    if y >= 0 and p > 0
                ),
                drift=(),
            )
            for k in range(len(pi))
        )
        items = tuple(
            MapItem(
                **self._named(y).model_dump(),
                x=float(places[i, 0]),
                y=float(places[i, 1]),
                radius=float(radius[i]),
                popularity=float(popularity[i]),
                component=int(shares[i].argmax()) + 1,
                share=float(shares[i].max()),
            )
            for i, y in enumerate(shown_items.tolist())
        )
        return components, tuple(sorted(items, key=lambda item: -item.popularity))

    @cached_property
    def _user_index(self) -> TextIndex:
        return TextIndex([str(user) for user in self._served.user_ids])

    @cached_property
    def _item_index(self) -> TextIndex:
        return TextIndex([str(item) for item in self._served.item_ids])

    @cached_property
    def _name_index(self) -> TextIndex:
        return TextIndex([self._catalogue.name(str(item)) for item in self._served.item_ids])

    def _named(self, position: int) -> NamedItem:
        item = str(self._served.item_ids[position])
        return NamedItem(item=item, name=self._catalogue.name(item))


def _largest(values: Sequence[float] | np.ndarray, n: int) -> list[int]:
    best, _ = top_n(np.asarray(values)[None], min(n, len(values)))
    return [y for y in best[0].tolist() if y >= 0]
