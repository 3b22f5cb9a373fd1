"""What the explorer shows of one model beside its lists: search, histories, the map."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.serving.answers import (
    ComponentMap,
    History,
    HistoryEntry,
    MapComponent,
    MapItem,
    Matches,
    NamedItem,
    UnknownUser,
    shown,
)
from mom_pipeline.serving.explorer import layout
from mom_pipeline.serving.served_model import ServedModel

_EXAMPLES = 5
_END = "\n"


class TextIndex:
    """Texts one after the other, so that one scan finds a part; case does not matter."""

    def __init__(self, texts: Sequence[str]) -> None:
        folded = [text.casefold() for text in texts]
        self._text = _END + _END.join(folded)
        self._starts = list(accumulate((len(text) + 1 for text in folded), initial=1))

    def search(self, part: str, n: int) -> list[int]:
        """The positions of at most n texts that hold a part; those that begin with it first."""
        folded, matching = part.casefold(), dict[int, None]()
        for positions in (self._beginning_with(folded), self._holding(folded)):
            for position in positions:
                matching[position] = None
                if len(matching) == n:
                    return list(matching)
        return list(matching)

    def _beginning_with(self, part: str) -> Iterator[int]:
        for place in self._places(_END + part):
            position = self._position(place + 1, part)
            # A text may hold the mark of an end itself.
            if position is not None and self._starts[position] == place + 1:
                yield position

    def _holding(self, part: str) -> Iterator[int]:
        for place in self._places(part):
            position = self._position(place, part)
            if position is not None:
                yield position

    def _places(self, part: str) -> Iterator[int]:
        place = self._text.find(part)
        while place >= 0:
            yield place
            place = self._text.find(part, place + 1)

    def _position(self, place: int, part: str) -> int | None:
        """The text that a place lies in; None when the part reaches beyond that text."""
        position = bisect_right(self._starts, place) - 1
        inside = position >= 0 and place + len(part) < self._starts[position + 1]
        return position if inside else None


class Explorer:
    """One model to look around in; what takes long is computed when it is asked for first."""

    def __init__(self, served: ServedModel, catalogue: Catalogue) -> None:
        self._served = served
        self._catalogue = catalogue

    def search(self, text: str, n: int) -> Matches:
        """Users by id and items by name or id; without a text, the most active and popular."""
        served, most = self._served, n + 1
        if text:
            users = self._user_index.search(text, most)
            items = [*self._item_index.search(text, most), *self._name_index.search(text, most)]
            items = list(dict.fromkeys(items))
        else:
            lengths = np.diff(served.histories.indptr).astype(np.float64)
            users = _largest(lengths, most)
            items = _largest(served.model.popularity, most)
        return Matches(
            model=served.manifest.version,
            users=tuple(str(served.user_ids[u]) for u in users[:n]),
            items=tuple(self._named(y) for y in items[:n]),
            more=len(users) > n or len(items) > n,
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

    @cached_property
    def map(self) -> ComponentMap:
        """The components, their items, and the drift of the days that had as many components."""
        model, figures = self._served.model, self._served.figures
        O, pi = model.item_probs, model.weights
        days = [day for day in figures.days if len(day.drift) == len(pi)] if figures else []
        shown_items = layout.shown_items(O, model.popularity)
        centres = layout.component_places(O)
        shares = layout.shares_of_components(O[shown_items], pi)
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
                drift=tuple(day.drift[k] for day in days),
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
        return ComponentMap(
            model=self._served.manifest.version,
            components=components,
            items=tuple(sorted(items, key=lambda item: -item.popularity)),
            days=tuple(day.day for day in days),
        )

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
