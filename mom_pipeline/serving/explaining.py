"""From the terms of a score to sentences about it."""

from collections.abc import Iterable, Sequence

import numpy as np

from mom_pipeline.core.ranking.explain import (
    COMPONENT,
    ITEM,
    explain_row,
    strongest,
)
from mom_pipeline.core.ranking.topn import BestItems
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.serving.answers import Contribution, Explanation, Reason
from mom_pipeline.serving.served_model import ServedModel

# Smaller terms of an explanation are rounding.
_NEGLIGIBLE = 1e-12


def reasons(
    served: ServedModel,
    history: Csr,
    P: Array,
    best: BestItems,
    examples: Sequence[tuple[str, ...]],
) -> list[Reason]:
    """Name what contributed most to each score, as the table of lists does."""
    why = strongest(served.model, history, P, best)
    listed = int((best.items[0] >= 0).sum())
    columns = (row[0, :listed] for row in (why.kinds, why.causes, why.terms, best.scores))
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
    user: str,
    history: Csr,
    item: str,
    position: int,
    examples: Sequence[tuple[str, ...]],
) -> Explanation:
    """Take the score of one item apart."""
    parts = explain_row(served.model, history, np.array([position]))
    score = float(parts.best.scores[0, 0])
    names = [str(served.item_ids[y]) for y in history.indices]
    moments = ((name, float(part[0])) for name, part in parts.by_part.items())
    return Explanation(
        user,
        item,
        served.manifest.version,
        score,
        bool(np.isin(position, history.indices)),
        reasons(served, history, parts.memberships, parts.best, examples)[0],
        tuple(Contribution(name, value, _share(value, score)) for name, value in moments),
        _largest_first(
            ((component_name(k), value) for k, value in enumerate(parts.by_component[0].tolist())),
            score,
        ),
        _largest_first(zip(names, parts.by_history[0].tolist(), strict=True), score),
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
