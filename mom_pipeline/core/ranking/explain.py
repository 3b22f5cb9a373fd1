"""Explanations: which item of the history, or which component, a score comes from.

Features add up to the score. What a part adds is shared out to the items of the history in
proportion to their shares in its plain value; what is known of the item alone names the item as
popular or as rising.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import weighted_rows
from mom_pipeline.core.ranking.item_matrix import owners
from mom_pipeline.core.ranking.parts import COMPONENTS, Histories, added_up
from mom_pipeline.core.ranking.score import LogitScore
from mom_pipeline.core.ranking.topn import BestItems
from mom_pipeline.core.threads import cut, map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

POPULAR, COMPONENT, ITEM, RISING = 0, 1, 2, 3
_USERS_PER_BLOCK = 512
# Terms of a block of users, entries of their histories times listed items: some 100 MB.
_TERMS = 2_000_000
# What the features of the item alone are called in an explanation.
POPULARITY, TREND, OWN = "popularity", "trend", "own"
BOOST = "boost"


@dataclass(frozen=True)
class Reasons:
    """What contributed most to each listed score; (N, n) each."""

    kinds: Array  # POPULAR, COMPONENT, ITEM or RISING
    causes: Array  # number of the component, from 0, or position of the item; else -1
    terms: Float64  # what the cause added to the score


def strongest(model: FittedModel, rows: Histories, best: BestItems) -> Reasons:
    """Find what adds most to every listed item's score, by what the model was fitted to rank by."""
    items, score = best.items, model.top().score
    kinds, causes = np.zeros(items.shape, dtype=np.int64), np.full(items.shape, -1)
    terms = np.zeros(items.shape)

    def by_components(users: slice) -> None:
        P, own = rows.memberships[users], items[users]
        causes[users], terms[users] = _strongest_components(P, model.item_probs, own)
        kinds[users] = np.where(terms[users] > 0, COMPONENT, POPULAR)

    def by_features(score: LogitScore, users: slice) -> None:
        own = {name: value[users] for name, value in best.values.items()}
        part = _strongest_features(score, rows.block(users), items[users], own)
        kinds[users], causes[users], terms[users] = part.kinds, part.causes, part.terms

    if isinstance(score, LogitScore):
        per_block = max(_TERMS // items.shape[1], 1)
        map_blocks(partial(by_features, score), cut(rows.X.indptr, per_block, per_block))
    else:
        starts = range(0, len(items), _USERS_PER_BLOCK)
        map_blocks(by_components, [slice(start, start + _USERS_PER_BLOCK) for start in starts])
    return Reasons(kinds, causes, terms)


def _strongest_features(
    score: LogitScore, rows: Histories, items: Array, values: Mapping[str, Array]
) -> Reasons:
    listed = np.maximum(items, 0)
    added = by_entry(score, rows, listed, values)
    of_item = item_parts(score, rows, listed)
    causes, terms = np.full(items.shape, -1, dtype=np.int64), np.zeros(items.shape)
    users = np.flatnonzero(rows.lengths)
    if len(users):
        starts = rows.X.indptr[users]
        terms[users] = np.maximum.reduceat(added, starts, axis=0)
        # Of equal ones the first.
        entries = np.where(
            added == terms[owners(rows.X)], np.arange(len(added))[:, None], len(added)
        )
        causes[users] = rows.X.indices[np.minimum.reduceat(entries, starts, axis=0)]
    had = of_item[OWN] > terms
    causes, terms = np.where(had, listed, causes), np.where(had, of_item[OWN], terms)
    # The history as a whole against what is known of the item alone.
    of_history = np.maximum(added_up(rows.X, added) + of_item[OWN], 0.0)
    rising = of_item[TREND] > of_item[POPULARITY]
    alone = of_item[TREND] + of_item[POPULARITY]
    is_alone = (alone > of_history) | (terms <= 0)
    kinds = np.where(is_alone, np.where(rising & (of_item[TREND] > 0), RISING, POPULAR), ITEM)
    is_known = items >= 0
    return Reasons(
        np.where(is_known, kinds, POPULAR),
        np.where(is_known & ~is_alone, causes, -1),
        np.where(is_known, np.where(is_alone, alone, terms), 0.0),
    )


@dataclass(frozen=True)
class ScoreExplanation:
    """The scores of some items for one user, taken apart in three ways."""

    best: BestItems  # the items as a list, in the order in which they were given
    memberships: Array  # (1, K)
    by_part: dict[str, Float64]  # name -> (n,), what adds up to the score
    by_component: Float64  # (n, K) of P[item | user] where components rank, else 0
    by_history: Float64  # (n, history) what is shared out to its items


def explain_row(
    model: FittedModel, rows: Histories, items: Array, *, exclude_seen: bool = True
) -> ScoreExplanation:
    """Take the scores of some items apart, seen or not. rows: of one user.  items: (n,)."""
    P, top = rows.memberships, model.top()
    score, boosts = top.score, model.list_rules.boosts
    components = np.zeros((len(items), len(model.weights)))
    if isinstance(score, LogitScore):
        _, values = score(rows, exclude_seen=exclude_seen)
        parts = {
            part.name: score.part_terms(part, part.at(rows, items[None]), rows, values[part.name])
            for part in score.parts
        }
        of_item = item_parts(score, rows, items[None])
        if exclude_seen:
            of_item[OWN] *= 0.0
        parts |= of_item if top.added is None else {**of_item, BOOST: top.added[items][None]}
        history = by_entry(score, rows, items[None], values).T
    else:
        values = {}
        components = model.item_probs[items].astype(np.float64) * P[0]
        parts = {COMPONENTS: components.sum(axis=1)[None]}
        if boosts is not None:
            parts[BOOST] = parts[COMPONENTS] * (boosts[items] - 1)
        history = components_by_history(model, rows.X, P[0], items, components)
    by_part = {name: term[0].astype(np.float64) for name, term in parts.items()}
    scores = sum(by_part.values(), np.zeros(len(items)))
    best = BestItems(items[None], scores[None], values)
    return ScoreExplanation(best, P, by_part, components, history)


def item_parts(score: LogitScore, rows: Histories, items: Array) -> dict[str, Array]:
    """Return what is known of the item alone, and of an own item, name -> (users, n)."""
    days = tuple(name for name in score.items if name != "users")
    terms = {
        POPULARITY: score.item_terms(("users",), rows.lengths, items),
        TREND: np.zeros(items.shape, dtype=np.float32),
        OWN: np.append(score.own_terms(rows), np.float32(0))[rows.entries_of(items)],
    }
    if days:
        terms[TREND] = score.item_terms(days, rows.lengths, items)
    return terms


def by_entry(
    score: LogitScore, rows: Histories, items: Array, values: Mapping[str, Array]
) -> Float64:
    """Return what each entry of the histories adds to its user's items, (entries, n).

    A user's entries sum to what the parts add.
    items: (users, n) positions.  values: the user's best value of each part, name -> (users,).
    """
    total = np.zeros((rows.X.nnz, items.shape[1]))
    for part in score.parts:
        shares = part.by_entry(rows, items)
        raw = added_up(rows.X, shares)
        terms = score.part_terms(part, raw.copy(), rows, values[part.name])
        per_unit = np.divide(terms, raw, out=np.zeros_like(terms), where=raw > 0)
        total += shares * per_unit[rows.seen[0]]
    return total


def components_by_history(
    model: FittedModel, row: Csr, P: Array, items: Array, component_terms: Float64
) -> Float64:
    """Share the components' part out to the history, (n, history); rows sum to it.

        term_h ~ x_h sum_k P[k | h, u] P[y | k],   P[k | h, u] ~ P[k | u] P[h | k]

    row: (1, D).  P: (K,).  component_terms: of `by_component`.
    """
    responsible = model.smoothed_item_probs[row.indices] * P.astype(np.float64)
    taken = weighted_rows(row, model.rows).data
    responsible /= np.maximum(responsible.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    credit = model.item_probs[items] @ (responsible * taken[:, None]).T
    whole = credit.sum(axis=1, keepdims=True)
    shares = np.divide(credit, whole, out=np.zeros_like(credit), where=whole > 0)
    return np.asarray(shares * component_terms.sum(axis=1, keepdims=True))


def _strongest_components(P: Array, item_probs: Array, items: Array) -> tuple[Array, Array]:
    """Return the component with the largest P[k | u] O[y, k], and that product: (N, n) each."""
    terms = P[:, None, :].astype(item_probs.dtype) * item_probs[items]
    best = terms.argmax(axis=2)
    largest = np.take_along_axis(terms, best[:, :, None], axis=2)[:, :, 0]
    return best, np.where(items >= 0, largest, 0.0)
