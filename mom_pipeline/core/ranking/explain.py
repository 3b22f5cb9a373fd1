"""Which item of the history, and which class, a score comes from.

Pairs, their inverse and their low-pass part are sums over the items of the history; the part
of the classes is a sum over the classes. Each is taken apart into those terms.
"""

from collections.abc import Mapping

import numpy as np

from mom_pipeline.core.fitted import FittedModel, PairRanking
from mom_pipeline.core.ranking.one_user import History, Ranked
from mom_pipeline.core.ranking.score import CLASSES, INVERSE, LOW_PASS, PAIRS
from mom_pipeline.core.types import Array, Float64


def by_class(model: FittedModel, ranked: Ranked) -> Float64:
    """Return what each class adds to each score, (n, K); rows sum to the classes' part.

        factor P[k | u] P[y | k]

    All zero where the classes have no weight.
    """
    factor = ranked.factors.get(CLASSES, 0.0)
    O = model.item_probs[ranked.items]
    return np.asarray(O.astype(np.float64) * ranked.memberships * factor)


def by_history(
    ranking: PairRanking, history: Array, items: Array, factors: Mapping[str, float]
) -> Float64:
    """Return what each item of the history adds by pairs, (n, history).

    Rows sum to the parts of the second moment: pairs, inverse and low-pass.
    history, items: positions.  factors: by what each part was multiplied.
    """
    y, h, w = items, history, ranking.weights
    total = np.zeros((len(y), len(h)))
    if PAIRS in factors:
        G = ranking.pairs.powers[h][:, y].toarray().T
        candidates = ranking.pairs.scale_at(y, w.candidate_exponent)
        own = ranking.pairs.scale_at(h, w.history_exponent)
        total += G * np.outer(candidates, own) * factors[PAIRS]
    if INVERSE in factors and ranking.explained is not None:
        total += ranking.explained.matrix[np.ix_(h, y)].T * factors[INVERSE]
    if LOW_PASS in factors:
        filtered = ranking.low_pass.filtered_at(h, w.low_pass_ridge)
        total += ranking.low_pass.spread_at(y) @ filtered.T * factors[LOW_PASS]
    return total


def classes_by_history(
    model: FittedModel, history: History, ranked: Ranked, class_terms: Float64
) -> Float64:
    """Share the classes' part out to the history, (n, history); rows sum to it.

        term_h = x_h sum_k P[k | h, u] P[y | k] ...,   P[k | h, u] ~ P[k | u] P[h | k]

    The posterior is no sum over the history; each item is credited with the class that it
    most likely came from, and the credits are scaled to the whole.
    class_terms: of `by_class`.
    """
    P = ranked.memberships.astype(np.float64)
    responsible = model.smoothed_item_probs[history.items] * P
    responsible /= np.maximum(responsible.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    credit = model.item_probs[ranked.items] @ (responsible * history.counts[:, None]).T
    whole = credit.sum(axis=1, keepdims=True)
    shares = np.divide(credit, whole, out=np.zeros_like(credit), where=whole > 0)
    return np.asarray(shares * class_terms.sum(axis=1, keepdims=True))


def similar_scores(model: FittedModel, item: int) -> Array:
    """Return how often each item goes with one, compared with their popularity, (D,).

        P[item and y] / sqrt(P[item] P[y])

    Counted pairs where the model ranks with them; else the pairs that its classes imply,
    P[a and b] = sum_k pi_k P[a | k] P[b | k].
    """
    ranking = model.pair_ranking
    if ranking is not None and ranking.weights.sharpness > 0:
        pairs = ranking.pairs
        scores = np.zeros(model.n_items)
        row = pairs.powers[[item]]
        scores[row.indices] = row.data.astype(np.float64) ** (1 / pairs.sharpness)
        c = np.maximum(pairs.item_users, 1.0)
        return np.asarray(scores / np.sqrt(c[item] * c))
    O, pi = model.item_probs, model.weights.astype(model.item_probs.dtype)
    single = (O @ pi).astype(np.float64)
    both = (O @ (pi * O[item])).astype(np.float64)
    scale = np.sqrt(single[item] * single)
    return np.divide(both, scale, out=np.zeros_like(both), where=scale > 0)
