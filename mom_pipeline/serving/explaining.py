"""From the terms of a score to sentences about it."""

from collections.abc import Iterable, Sequence

import numpy as np

from mom_pipeline.core.ranking.explain import by_class, by_history, classes_by_history
from mom_pipeline.core.ranking.one_user import History, OneUserRanking, Ranked
from mom_pipeline.core.ranking.reasons import COMPONENT, ITEM, strongest
from mom_pipeline.serving.answers import Contribution, Explanation, Reason
from mom_pipeline.serving.served_model import ServedModel

# Smaller terms of an explanation are rounding.
_NEGLIGIBLE = 1e-12


def reasons(
    served: ServedModel,
    history: History,
    ranked: Ranked,
    examples: Sequence[tuple[str, ...]],
) -> list[Reason]:
    """Name what contributed most to each score, as the table of lists does."""
    factors = {name: np.array([factor]) for name, factor in ranked.factors.items()}
    row = history.row(served.model.n_items)
    why = strongest(served.model, row, ranked.memberships[None], ranked.items[None], factors)
    columns = (why.kinds[0], why.causes[0], why.terms[0], ranked.scores)
    found = []
    for kind, cause, term, score in zip(*(c.tolist() for c in columns), strict=True):
        share = _share(term, score)
        if kind == ITEM:
            found.append(Reason("item", str(served.item_ids[cause]), share))
        elif kind == COMPONENT:
            found.append(Reason("component", component_name(cause), share, examples[cause]))
        else:
            found.append(Reason("popularity", "", share))
    return found


def explained(
    served: ServedModel,
    ranking: OneUserRanking,
    user: str,
    history: History,
    item: str,
    position: int,
    examples: Sequence[tuple[str, ...]],
) -> Explanation:
    """Take the score of one item apart."""
    ranked = ranking.at(history, np.array([position]))
    score = float(ranked.scores[0])
    classes = by_class(served.model, ranked)
    own = classes_by_history(served.model, history, ranked, classes)
    if served.model.pair_ranking is not None:
        own += by_history(served.model.pair_ranking, history.items, ranked.items, ranked.factors)
    names = [str(served.item_ids[y]) for y in history.items]
    moments = ((name, float(part[0])) for name, part in ranked.parts.items())
    return Explanation(
        user,
        item,
        served.manifest.version,
        score,
        bool(np.isin(position, history.items)),
        reasons(served, history, ranked, examples)[0],
        tuple(Contribution(name, value, _share(value, score)) for name, value in moments),
        _largest_first(
            ((component_name(k), value) for k, value in enumerate(classes[0].tolist())), score
        ),
        _largest_first(zip(names, own[0].tolist(), strict=True), score),
    )


def component_name(k: int) -> str:
    """Return the number of a component as the pages and the table of lists show it: from 1."""
    return str(k + 1)


def _largest_first(terms: Iterable[tuple[str, float]], score: float) -> tuple[Contribution, ...]:
    kept = [(name, value) for name, value in terms if abs(value) > _NEGLIGIBLE * abs(score)]
    kept.sort(key=lambda term: -term[1])
    return tuple(Contribution(name, value, _share(value, score)) for name, value in kept)


def _share(value: float, score: float) -> float:
    return value / score if score else 0.0
