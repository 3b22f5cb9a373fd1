"""The three-moment ranking with each of its parts left out in turn: what does it earn?

The weights of the parts that are left are chosen anew, on the same users.
"""

from dataclasses import replace
from functools import partial

from mom_pipeline.comparison.methods.interface import Method
from mom_pipeline.comparison.methods.moments import (
    THREE_MOMENT,
    choose_three_moment,
    fit_three_moment,
)
from mom_pipeline.core.ranking.score import NO_AGEING

_LEFT_OUT: dict[str, dict[str, float]] = {
    "popularity": {"popularity": 0.0},
    "pairs": {"pairs": 0.0},
    "ease": {"ease": 0.0},
    "low-pass": {"low_pass": 0.0},
    "components": {"components": 0.0},
    "own items": {"own": 0.0},
    "trend": {"trend": 0.0},
    "ageing": {"history_half_life": NO_AGEING},
}


def _without(part: str) -> Method:
    fixed = _LEFT_OUT[part]
    return replace(
        THREE_MOMENT,
        name=f"without-{part.replace(' ', '-')}",
        title=f"without {part}",
        fit=partial(fit_three_moment, fixed_weights=fixed),
        choose=partial(choose_three_moment, fixed_weights=fixed),
    )


METHODS: dict[str, Method] = {
    method.name: method for method in (THREE_MOMENT, *map(_without, _LEFT_OUT))
}
