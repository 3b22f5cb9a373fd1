"""Sums of shops that share: added and taken apart to the last digit, without any user in them.

All shops sum through one basis, that of one of them, and round to one grid: on it floating-point
numbers add without a rest, so a shop that leaves leaves nothing. Every number is a sum over 20
users or more: an item that fewer have is left out of a shop's rows. Of a pair of items there is
nothing by itself, only what the basis makes of all pairs of an item.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from operator import add, sub
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.algorithm.decompose import Components, DecomposeSettings, decompose
from mom_pipeline.core.errors import DamagedModel, MomError
from mom_pipeline.core.files import sha256_of
from mom_pipeline.core.interactions import as_binary
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import ITEM_SUMS, users_per_item
from mom_pipeline.core.persistence import load_arrays, save_arrays
from mom_pipeline.core.types import Array, Csr, Float64

LEAST_USERS, LEAST_TAKERS, _LEAST_ITEMS = 200, 20, 2
_FORMAT = "sums to share, 1"
_BY_ITEM = (*ITEM_SUMS, "item_pairs")
# A grid has 2^43 steps below the largest sum of the first shop: ten bits are left for others.
_BITS, _MOST_STEPS = 43, 2.0**53


class CannotShare(MomError):
    """Sums cannot be shared, added or taken apart as they are."""


@dataclass(frozen=True)
class Frame:
    """What all who share have in common. items: (B,) ids, rising."""

    items: Array
    basis: Float64  # (B, K') orthonormal
    item_scale: Float64  # (B,)
    estimator: Estimator
    settings: DecomposeSettings
    steps: Mapping[str, float]  # of the grid, by name of the sums

    @cached_property
    def name(self) -> str:
        """Equal for equal frames."""
        steps, ids = dict(sorted(self.steps.items())), self.items.tolist()
        facts = json.dumps([asdict(self.estimator), asdict(self.settings), steps, ids])
        return sha256_of(facts.encode() + self.basis.tobytes() + self.item_scale.tobytes())

    def anchor(self, items: Array) -> Anchor:
        """The anchor among items, (D,) ids rising, of which some may be of other shops."""
        return Anchor(
            _placed(self.basis, self.items, items),
            _placed(self.item_scale - 1, self.items, items) + 1,
            self.estimator,
        )


@dataclass(frozen=True)
class SharedSums:
    """The sums of one shop or several. items: (D,) ids, rising; sums: as `AnchoredSums` names them.

    shops: users by shop, each by the hash of what it shared.
    """

    frame: Frame
    items: Array
    sums: Mapping[str, Array]
    shops: Mapping[str, int]

    def __add__(self, other: Self) -> Self:
        if self.shops.keys() & other.shops.keys():
            raise CannotShare("the sums of a shop are in both files; each counts once")
        return self._combined(other, add, {**self.shops, **other.shops})

    def __sub__(self, other: Self) -> Self:
        if not other.shops.keys() <= self.shops.keys():
            raise CannotShare(
                "these sums are not among those that were added, so they cannot leave"
            )
        left = {shop: n for shop, n in self.shops.items() if shop not in other.shops}
        if not left:
            raise CannotShare("nobody would be left; remove the file instead")
        return self._combined(other, sub, left)

    def _combined(
        self, other: Self, combine: Callable[[Any, Any], Any], shops: Mapping[str, int]
    ) -> Self:
        """Combine all sums, and keep the items of the frame and those that anybody has."""
        if self.frame.name != other.frame.name:
            raise CannotShare(
                "these sums were made through different bases or with other settings; export one "
                "of them again with --through the other"
            )
        items = np.union1d(self.items, other.items)
        one, two = (_among(each.sums, each.items, items) for each in (self, other))
        sums = {name: combine(one[name], two[name]) for name in one}
        for name, step in self.frame.steps.items():
            if np.abs(sums[name]).max(initial=0) >= _MOST_STEPS * step:
                raise CannotShare(f"{name} of so many shops leave their grid; export anew")
        kept = items[(sums["item_users"] > 0) | np.isin(items, self.frame.items)]
        return replace(self, items=kept, sums=_among(sums, items, kept), shops=shops)

    @property
    def n_users(self) -> int:
        return sum(self.shops.values())

    @property
    def taken_items(self) -> frozenset[str]:
        """Ids of the items that anybody has; others are those of the basis."""
        return frozenset(self.items[self.sums["item_users"] > 0].tolist())

    def components(self) -> Components:
        """The components of all users together, found from these sums alone."""
        sums = AnchoredSums.from_arrays(dict(self.sums))
        return decompose(self.frame.anchor(self.items), sums, self.frame.settings)

    def typical(self, n: int) -> list[tuple[float, list[str]]]:
        """Return the share and n items of each group, the largest first."""
        found = self.components()
        best = np.argsort(-found.item_probs, axis=0, kind="stable")[:n]
        order = np.argsort(-found.weights, kind="stable").tolist()
        return [(float(found.weights[k]), self.items[best[:, k]].tolist()) for k in order]

    def save(self, path: Path) -> None:
        """Write one file, whole or not at all."""
        frame = self.frame
        facts = {"kind": _FORMAT, "shops": dict(self.shops), "steps": dict(frame.steps)}
        facts |= {"estimator": asdict(frame.estimator), "settings": asdict(frame.settings)}
        facts |= {"items": self.items.tolist(), "of_frame": frame.items.tolist()}
        own: dict[str, Array] = {"basis": frame.basis, "item_scale": frame.item_scale}
        save_arrays(path, facts, own | {f"sums_{name}": a for name, a in self.sums.items()})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote; CannotShare where it is something else."""
        try:
            facts, arrays = load_arrays(path)
            if facts.get("kind") != _FORMAT:
                raise DamagedModel(f"found {facts.get('kind', 'a model')!r}, expected {_FORMAT!r}")
            frame = Frame(
                np.array(facts["of_frame"], dtype=object),
                arrays["basis"],
                arrays["item_scale"],
                Estimator(**facts["estimator"]),
                DecomposeSettings(**facts["settings"]),
                facts["steps"],
            )
        except (OSError, DamagedModel, AttributeError, KeyError, TypeError) as error:
            raise CannotShare(
                f"{path} holds no sums that this version reads ({error}); have them exported again"
            ) from error
        sums = {name[5:]: array for name, array in arrays.items() if name.startswith("sums_")}
        return cls(frame, np.array(facts["items"], dtype=object), sums, facts["shops"])


def shared_sums(
    X: Csr,
    ids: Sequence[str],
    own: Anchor,
    settings: DecomposeSettings,
    through: Frame | None = None,
) -> tuple[SharedSums, dict[str, int]]:
    """Sum over a shop's users through a basis of its own, or that of another shop.

    X: (N, D), of which no item without an id is shared.  ids: (D,)  own: the anchor of these rows.
    Returns also how many users, items and pairs of items are left out.
    """
    names = np.array(ids, dtype=object)
    rows, kept, left_out = _shareable(X, names != "")
    if rows.shape[0] < LEAST_USERS:
        raise CannotShare(
            f"{rows.shape[0]} people have two items or more that {LEAST_TAKERS} people have; "
            f"sums are shared of {LEAST_USERS} people or more, so that they say nothing of one"
        )
    kept = kept[order := np.argsort(names[kept])]
    rows, own_items = rows[:, order], names[kept]
    frame = through or _own_frame(own, kept, own_items, settings)
    items = np.union1d(frame.items, own_items)
    among = sparse.csr_array(
        (rows.data, np.searchsorted(items, own_items)[rows.indices], rows.indptr),
        shape=(rows.shape[0], len(items)),
    )
    sums = AnchoredSums.from_rows(among, frame.anchor(items)).as_arrays()
    if not frame.steps:
        most = {name: float(np.abs(array).max()) or 1.0 for name, array in sums.items()}
        grid = {name: float(2 ** (np.ceil(np.log2(m)) - _BITS)) for name, m in most.items()}
        frame = replace(frame, steps=grid)
    steps = frame.steps
    sums = {name: np.rint(array / steps[name]) * steps[name] for name, array in sums.items()}
    content = frame.name.encode() + b"".join(array.tobytes() for array in sums.values())
    return SharedSums(frame, items, sums, {sha256_of(content): rows.shape[0]}), left_out


def _shareable(X: Csr, named: Array) -> tuple[Csr, Array, dict[str, int]]:
    """Return rows of users with two items or more, each of 20 users; positions of the items."""
    X = sparse.csr_array(X, copy=True)
    X.eliminate_zeros()
    users, items = np.arange(X.shape[0]), np.flatnonzero(named)
    while True:
        rows = X[users][:, items]
        several = np.diff(rows.indptr) >= _LEAST_ITEMS
        often = users_per_item(rows[several]) >= LEAST_TAKERS
        if several.all() and often.all():
            break
        users, items = users[several], items[often]
    rare = np.ones(X.shape[1], dtype=bool)
    rare[items] = False
    of_rare = as_binary(X[:, np.flatnonzero(rare)])
    taken, known = int((of_rare.sum(axis=0) > 0).sum()), int((np.diff(X.indptr) > 0).sum())
    with_any, among = (of_rare.T @ as_binary(X)).nnz, (of_rare.T @ of_rare).nnz
    pairs = with_any - among + (among - taken) // 2  # of different items, each once
    return rows, items, {"users": known - len(users), "items": taken, "item_pairs": pairs}


def _own_frame(own: Anchor, kept: Array, items: Array, settings: DecomposeSettings) -> Frame:
    """The frame of a shop's own basis: so few columns that no pair of items can be told from it."""
    known = own.known[kept]
    at, width = kept[known], min(own.basis.shape[1], int(known.sum()) // 2)
    if width < settings.n_components:
        raise CannotShare(
            f"{known.sum()} items are too few for {settings.n_components} groups: pairs of items "
            "could be told from such sums; lower model.n_components"
        )
    basis = np.linalg.qr(own.basis[at, :width].astype(np.float64))[0]
    return Frame(items[known], basis, own.item_scale[at], own.estimator, settings, {})


def _among(sums: Mapping[str, Array], own: Array, items: Array) -> dict[str, Array]:
    """Return sums by item among other items."""
    return {
        name: _placed(array, own, items) if name in _BY_ITEM else array
        for name, array in sums.items()
    }


def _placed(array: Array, own: Array, items: Array) -> Array:
    """Return rows of own ids, (n, ...), in the order of items, (D, ...): 0 where there is none."""
    found = np.isin(own, items)
    placed = np.zeros((len(items), *array.shape[1:]))
    placed[np.searchsorted(items, own[found])] = array[found]
    return placed
