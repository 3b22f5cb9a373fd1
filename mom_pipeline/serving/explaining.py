"""From the terms of a score to sentences about it."""

from collections.abc import Iterable, Sequence

import numpy as np

from mom_pipeline.core.attribution import by_class, by_history, classes_by_history
from mom_pipeline.core.one_user import POPULARITY, History, OneUserRanking, Ranked
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
    """Name what contributed most to each score.

    The contributors are the terms that the score is a sum of: items of the history, through
    the second moment; components, through the classes; popularity.
    """
    n = len(ranked.items)
    if not n:
        return []
    pairs = by_history(served.model, history, ranked)
    classes = by_class(served.model, ranked)
    popular = ranked.parts.get(POPULARITY, np.zeros(n))
    rows = np.arange(n)
    item, component = pairs.argmax(axis=1), classes.argmax(axis=1)
    terms = np.stack([pairs[rows, item], classes[rows, component], popular], axis=1)
    found = []
    for row, kind in enumerate(terms.argmax(axis=1).tolist()):
        share = _share(float(terms[row, kind]), float(ranked.scores[row]))
        if kind == 0:
            name = str(served.item_ids[history.items[item[row]]])
            found.append(Reason("item", name, share))
        elif kind == 1:
            k = int(component[row])
            found.append(Reason("component", component_name(k), share, examples[k]))
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
) -> Explanation:
    """Take the score of one item apart."""
    ranked = ranking.at(history, np.array([position]))
    score = float(ranked.scores[0])
    classes = by_class(served.model, ranked)
    own = by_history(served.model, history, ranked)
    own = own + classes_by_history(served.model, history, ranked, classes)
    names = [str(served.item_ids[y]) for y in history.items]
    moments = ((name, float(part[0])) for name, part in ranked.parts.items())
    return Explanation(
        user,
        item,
        served.manifest.version,
        score,
        bool(np.isin(position, history.items)),
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
