"""Explanations: which item of the history, or which component, a score comes from.

Pairs, EASE and low-pass are sums over the items of the history, the components' part is one over
the components; popularity has no such terms.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import weighted_rows
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.item_matrix import owners
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.parts import COMPONENTS, OWN, Histories, Own, Pairs
from mom_pipeline.core.ranking.score import Score
from mom_pipeline.core.ranking.topn import BestItems, user_blocks
from mom_pipeline.core.threads import cut, map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

POPULAR, COMPONENT, ITEM = 0, 1, 2
_USERS_PER_BLOCK = 512
# Terms of a block of users, entries of their histories times listed items: some 100 MB.
_TERMS = 2_000_000


@dataclass(frozen=True)
class Reasons:
    """What contributed most to each listed score; (N, n) each.

    kinds: POPULAR, COMPONENT or ITEM.  causes: the number of the component, from 0, or the
    position of the item; -1 for POPULAR.  terms: what the cause added to the score.
    """

    kinds: Array
    causes: Array
    terms: Float64


def strongest(model: FittedModel, X: Csr, P: Array, best: BestItems) -> Reasons:
    """Find the largest term of every listed item's score.

    X: (N, D).  P: (N, K).  best: lists of the same users by what the model was fitted to rank by.
    """
    items, factors = best.items, best.factors
    causes = np.full((3, *items.shape), -1, dtype=np.int64)
    terms = np.zeros((3, *items.shape))
    score = model.top().score

    def by_components(start: int) -> None:
        users = slice(start, start + _USERS_PER_BLOCK)
        causes[COMPONENT, users], terms[COMPONENT, users] = _strongest_components(
            P[users] * factors[COMPONENTS][users, None], model.item_probs, items[users]
        )

    def by_items(users: slice) -> None:
        own = {name: factor[users] for name, factor in factors.items()}
        rows = model.histories(X[users])
        causes[ITEM, users], terms[ITEM, users] = _strongest_items(score, rows, items[users], own)

    if COMPONENTS in factors:
        map_blocks(by_components, range(0, len(items), _USERS_PER_BLOCK))
    if model.pair_ranking is not None:
        per_block = max(_TERMS // items.shape[1], 1)
        map_blocks(by_items, cut(X.indptr, per_block, per_block))
    if OWN in factors:
        _name_own(causes[ITEM], terms[ITEM], model.histories(X), items, factors[OWN])
    # Negative terms speak against an item; of equal ones the item of the history is named.
    kinds = np.where(terms[ITEM] >= terms[COMPONENT], ITEM, COMPONENT)
    kinds[np.maximum(terms[ITEM], terms[COMPONENT]) <= 0] = POPULAR
    terms *= score.trend_at(items)
    return Reasons(kinds, np.choose(kinds, causes), np.choose(kinds, terms))


def _name_own(causes: Array, terms: Array, rows: Histories, items: Array, factor: Array) -> None:
    """Name an item of the history as its own reason where that adds most, in place."""
    for users in user_blocks(*rows.X.shape):
        own = Own().at(rows.block(users), np.maximum(items[users], 0)) * factor[users, None]
        more = (own > terms[users]) & (items[users] >= 0)
        causes[users][more], terms[users][more] = items[users][more], own[more]


@dataclass(frozen=True)
class ScoreExplanation:
    """The scores of some items for one user, taken apart in three ways.

    best: the items as a list, in the order in which they were given.  memberships: (1, K).
    by_part: name -> (n,).  by_component: (n, K), of the components' part.
    by_history: (n, history), of all parts but popularity and the user's own items.
    """

    best: BestItems
    memberships: Array
    by_part: dict[str, Float64]
    by_component: Float64
    by_history: Float64


def explain_row(model: FittedModel, row: Csr, items: Array) -> ScoreExplanation:
    """Take the scores of some items apart, seen or not. row: (1, D).  items: (n,) positions."""
    P = model.memberships(row)
    rows, top = model.histories(row, P), model.top()
    factors = top.factors(rows)
    own = {name: float(factor[0]) for name, factor in factors.items()}
    trend = top.score.trend_at(items).astype(np.float64)
    parts = {
        part.name: part.at(rows, items[None])[0].astype(np.float64) * own[part.name] * trend
        for part, _ in top.score.parts
    }
    components = by_component(model, P[0], items, own.get(COMPONENTS, 0.0)) * trend[:, None]
    history = by_entry(top.score, rows, items[None], factors).T * trend[:, None]
    history += components_by_history(model, row, P[0], items, components)
    scores = sum(parts.values(), np.zeros(len(items)))
    best = BestItems(items[None], scores[None], factors)
    return ScoreExplanation(best, P, parts, components, history)


def by_component(model: FittedModel, P: Array, items: Array, factor: float) -> Float64:
    """Return factor P[k | u] P[y | k], (n, K): rows sum to the components' part. P: (K,)."""
    return np.asarray(model.item_probs[items].astype(np.float64) * P * factor)


def by_entry(score: Score, rows: Histories, items: Array, factors: Mapping[str, Array]) -> Float64:
    """Return what each entry of the histories adds to its user's items, (entries, n).

    A user's entries sum to the parts of the second moment: pairs, EASE and low-pass.
    items: (users, n) positions.  factors: by what each part was multiplied, name -> (users,).
    """
    history = rows.once
    total = np.zeros((history.nnz, items.shape[1]))
    for part, _ in score.parts:
        if isinstance(part, Pairs | Ease | LowPass):
            terms = part.by_entry(history, items)
            terms *= factors[part.name][owners(history), None].astype(terms.dtype)
            total += terms
    total *= history.data[:, None]
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


def similar_scores(model: FittedModel, item: int) -> Array:
    """Return P[item and y] / sqrt(P[item] P[y]) of every item y, (D,).

    Counted where the model ranks with co-occurrences; else as its components imply,
    P[a and b] = sum_k pi_k P[a | k] P[b | k].
    """
    ranking = model.pair_ranking
    if ranking is not None and ranking.weights.sharpness > 0:
        pairs = ranking.pairs
        scores = np.zeros(model.n_items)
        row = pairs.powers.entries[[item]]
        scores[row.indices] = row.data.astype(np.float64) ** (1 / pairs.sharpness)
        c = np.maximum(pairs.item_users, 1.0)
        return np.asarray(scores / np.sqrt(c[item] * c))
    O, pi = model.item_probs, model.weights.astype(model.item_probs.dtype)
    single = (O @ pi).astype(np.float64)
    both = (O @ (pi * O[item])).astype(np.float64)
    scale = np.sqrt(single[item] * single)
    return np.divide(both, scale, out=np.zeros_like(both), where=scale > 0)


def _strongest_components(P: Array, item_probs: Array, items: Array) -> tuple[Array, Array]:
    """Return the component with the largest P[k | u] O[y, k], and that product: (N, n) each."""
    terms = P[:, None, :].astype(item_probs.dtype) * item_probs[items]
    best = terms.argmax(axis=2)
    largest = np.take_along_axis(terms, best[:, :, None], axis=2)[:, :, 0]
    return best, np.where(items >= 0, largest, 0.0)


def _strongest_items(
    score: Score, rows: Histories, items: Array, factors: Mapping[str, Array]
) -> tuple[Array, Float64]:
    """Return the item of a history that adds most to each listed one, and how much: (users, n)."""
    causes, terms = np.full(items.shape, -1, dtype=np.int64), np.zeros(items.shape)
    users = np.flatnonzero(np.diff(rows.X.indptr))
    if len(users):
        added = by_entry(score, rows, items, factors)
        starts = rows.X.indptr[users]
        terms[users] = np.maximum.reduceat(added, starts, axis=0)
        # Of equal ones the first.
        entries = np.where(
            added == terms[owners(rows.X)], np.arange(len(added))[:, None], len(added)
        )
        causes[users] = rows.X.indices[np.minimum.reduceat(entries, starts, axis=0)]
    return causes, np.where(items >= 0, terms, 0.0)
