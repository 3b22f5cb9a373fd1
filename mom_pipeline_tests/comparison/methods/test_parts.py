"""Three moments with a part left out: the part has no weight, and the others are chosen."""

from dataclasses import fields

import pytest

from mom_pipeline.comparison.methods.parts import _LEFT_OUT, METHODS
from mom_pipeline.core import RankingWeights

SMALL = {"n_components": 5}


@pytest.mark.parametrize("part", _LEFT_OUT)
def test_a_part_that_is_left_out_has_no_weight(part, past_and_future):
    past, future = past_and_future[0][:400], past_and_future[1][:400]
    method, fixed = METHODS[f"without-{part.replace(' ', '-')}"], _LEFT_OUT[part]
    chosen = method.choose(past, future, SMALL, 0)
    assert {name: chosen[name] for name in fixed} == fixed
    assert method.fit(past, {**SMALL, **chosen}, 0).notes.items() >= fixed.items()
    assert {f.name for f in fields(RankingWeights)} <= set(chosen)


def test_every_part_of_the_score_is_left_out_once():
    weights = {name for fixed in _LEFT_OUT.values() for name in fixed}
    parts = {"popularity", "pairs", "ease", "low_pass", "components", "own", "trend"}
    assert parts < weights
    assert next(iter(METHODS)) == "three-moment"
