"""What the explorer shows of one model beside its lists: search, histories, and the map.

On the map, components stand on a circle, like ones beside each other. An item stands at the mean
of the places of its components,

    sum_k P[k | item] c_k,   P[k | item] = pi_k O[item, k] / sum_l pi_l O[item, l]

and is then moved just so far that no circle covers another one.
"""

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate

import numpy as np

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.types import Array, Float64
from mom_pipeline.serving import answers
from mom_pipeline.serving.served_model import ServedModel

_EXAMPLES = 5
# Between texts: half of a surrogate pair, which no text can hold.
_END = "\udc00"
# Items on the map: the most popular ones, and so many of all components, at least two of each.
_POPULAR, _OF_COMPONENTS, _AT_LEAST = 160, 160, 2
_SMALLEST, _LARGEST, _GAP, _STEPS = 0.010, 0.055, 0.004, 80


class TextIndex:
    """Texts one after the other, so that one scan finds a part in them all; in any case."""

    def __init__(self, texts: Iterable[str]) -> None:
        folded = [text.casefold() for text in texts]
        self._text = _END + _END.join(folded)
        self._starts = list(accumulate((len(text) + 1 for text in folded), initial=1))

    def search(self, part: str, n: int) -> list[int]:
        """Positions of at most n texts that hold a part; those that begin with it first."""
        found: dict[int, None] = {}
        for wanted in (_END + part.casefold(), part.casefold()):
            place = self._text.find(wanted)
            while place >= 0 and len(found) < n:
                found[bisect_right(self._starts, place + len(wanted) - 1) - 1] = None
                place = self._text.find(wanted, place + 1)
        return list(found)


class Explorer:
    """One model to look around in; what takes long is computed when it is asked for first."""

    def __init__(self, served: ServedModel, catalogue: Catalogue) -> None:
        self._served = served
        self._catalogue = catalogue

    def search(self, text: str, n: int) -> answers.Matches:
        """Users by id and items by id or name; without a text, the most active and popular."""
        served, most = self._served, n + 1
        if text:
            users = self._users.search(text, most)
            items = [y for index in self._items for y in index.search(text, most)]
            items = list(dict.fromkeys(items))
        else:
            activity = np.diff(served.histories.indptr).astype(np.float64)
            users, items = (
                top_n(values[None], most)[0][0].tolist()
                for values in (activity, served.model.popularity)
            )
        return answers.Matches(
            model=served.manifest.version,
            users=tuple(str(served.user_ids[u]) for u in users[:n]),
            items=tuple(self._named(y) for y in items[:n]),
            more=len(users) > n or len(items) > n,
        )

    def history(self, user: str, n: int) -> answers.History:
        """What a user took; UnknownUser when the model has nothing of them."""
        own = self._served.history(user)
        if own is None:
            raise answers.UnknownUser(f"the model does not know the user {answers.shown(user)}")
        items, counts, days = own
        order = np.lexsort((-counts, -days))[:n]  # newest first
        items, weights = items[order].tolist(), counts[order].tolist()
        entries = tuple(
            answers.HistoryEntry(**dict(self._named(y)), weight=weight)
            for y, weight in zip(items, weights, strict=True)
        )
        version = self._served.manifest.version
        return answers.History(user=user, model=version, total=len(own[0]), items=entries)

    @cached_property
    def map(self) -> answers.ComponentMap:
        """The components, their items, and the drift of the days that had as many components."""
        model, figures = self._served.model, self._served.figures
        O, pi = model.item_probs, model.weights
        days = [day for day in figures.days if len(day.drift) == len(pi)] if figures else []
        centres, examples = component_places(O), top_n(O.T, min(_EXAMPLES, len(O)))[0]
        components = tuple(
            answers.MapComponent(
                number=k + 1,
                x=float(x),
                y=float(y),
                weight=float(pi[k]),
                items=tuple(self._named(item) for item in examples[k] if O[item, k] > 0),
                drift=tuple(day.drift[k] for day in days),
            )
            for k, (x, y) in enumerate(centres)
        )
        on_map = shown_items(O, model.popularity)
        on_map = on_map[np.argsort(-model.popularity[on_map], kind="stable")]
        shares, popularity = shares_of_components(O[on_map], pi), model.popularity[on_map]
        radius = radii(popularity)
        items = tuple(
            answers.MapItem(
                **dict(self._named(on_map[i])),
                x=float(x),
                y=float(y),
                radius=float(radius[i]),
                popularity=float(popularity[i]),
                component=int(shares[i].argmax()) + 1,
                share=float(shares[i].max()),
            )
            for i, (x, y) in enumerate(moved_apart(shares @ centres, radius))
        )
        version, dates = self._served.manifest.version, tuple(day.day for day in days)
        return answers.ComponentMap(model=version, components=components, items=items, days=dates)

    @cached_property
    def _users(self) -> TextIndex:
        return TextIndex(map(str, self._served.user_ids))

    @cached_property
    def _items(self) -> tuple[TextIndex, TextIndex]:
        """Ids and names of the items."""
        ids = [str(item) for item in self._served.item_ids]
        return TextIndex(ids), TextIndex(map(self._catalogue.name, ids))

    def _named(self, position: int) -> answers.NamedItem:
        item = str(self._served.item_ids[position])
        return answers.NamedItem(item=item, name=self._catalogue.name(item))


def shown_items(O: Array, popularity: Array) -> Array:
    """The items worth a circle: popular ones, and the most probable ones of every component.

    An item that no component shows has no place.
    """
    popular = top_n(popularity[None], min(_POPULAR, len(popularity)))[0][0]
    n = min(max(_OF_COMPONENTS // O.shape[1], _AT_LEAST), len(O))
    candidates = np.unique(np.concatenate([popular, top_n(O.T, n)[0].ravel()]))
    return candidates[(O[candidates] > 0).any(axis=1)]


def component_places(O: Array) -> Float64:
    """(K, 2): on a circle, each beside the one that it is most like. O: (D, K)."""
    root = np.sqrt(O)
    likeness = root.T @ root
    order, left = [0], set(range(1, O.shape[1]))
    while left:
        nearest = max(left, key=lambda k: (likeness[order[-1], k], -k))
        order.append(nearest)
        left.remove(nearest)
    angles = np.empty(len(order))
    angles[order] = 2 * np.pi * np.arange(len(order)) / len(order)
    return np.stack([np.sin(angles), -np.cos(angles)], axis=1)


def shares_of_components(O: Array, pi: Array) -> Float64:
    """P[component | item], (n, K), of items that some component shows."""
    joint: Float64 = O * pi
    return joint / joint.sum(axis=1, keepdims=True)


def radii(popularity: Array) -> Float64:
    """The radius of each circle: its area grows with the popularity."""
    most = max(float(popularity.max(initial=0.0)), np.finfo(np.float64).tiny)
    return _SMALLEST + (_LARGEST - _SMALLEST) * np.sqrt(popularity / most)


def moved_apart(places: Array, radius: Array) -> Float64:
    """(n, 2): circles that covered each other, moved apart; the same every time."""
    turns = np.arange(len(places)) * 2.399963  # the golden angle: equal places part on all sides
    now = places + 1e-4 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    wanted = radius[:, None] + radius + _GAP
    np.fill_diagonal(wanted, 0)
    for _ in range(_STEPS):
        apart = now[:, None] - now
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-9)
        push = np.maximum(wanted - distance, 0) / distance / 2
        if not push.any():
            break
        now += (apart * push[..., None]).sum(axis=1) * 0.5
    return now
