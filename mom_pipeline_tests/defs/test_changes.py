"""A matrix is stored as the rows that changed since an earlier one; days are read as before."""

import numpy as np
import pytest

from mom_pipeline.artifacts.day_artifacts import StaleArtifact
from mom_pipeline.cli.verify import damages
from mom_pipeline.defs.freshness import freshness
from mom_pipeline.erasure.days import erase_from_days
from mom_pipeline.warehouse.matrix import matrix_as_of

from .conftest import MODEL, N_DAYS, SERVED, Pipeline, day, lines_of

SMALL = (N_DAYS + 1, N_DAYS + 2)


@pytest.fixture
def small_days(copied: Pipeline) -> Pipeline:
    """The finished folder with two more days on which three users took something."""
    for n in SMALL:
        copied.deliver({f"{day(n)}.csv": lines_of(day(n), "user-00001", "user-00002", f"new-{n}")})
    copied.run(*SMALL, only=SERVED)
    return copied


def sizes(pipeline: Pipeline, n: int) -> int:
    folder = pipeline.settings.artifacts_dir / "interaction_matrix" / str(day(n))
    return sum(path.stat().st_size for path in folder.rglob("*.npz"))


def assert_as_in_the_logs(pipeline: Pipeline, n: int) -> None:
    expected = matrix_as_of(pipeline.warehouse, day(n))
    state = pipeline.state
    for ours, theirs in (
        (state.matrix(day(n))[0], expected.interactions),
        (state.last_days(day(n)), expected.last_days),
    ):
        assert ours.shape == theirs.shape
        np.testing.assert_array_equal(ours.toarray(), theirs.toarray())


def whole_day(pipeline: Pipeline, n: int) -> str | None:
    return pipeline.state.artifacts.describe("interaction_matrix", day(n)).metadata.get("whole_day")


def test_a_small_day_is_small_on_disk(small_days: Pipeline):
    assert [whole_day(small_days, n) for n in (N_DAYS, *SMALL)] == [None] + 2 * [str(day(N_DAYS))]
    for n in SMALL:
        assert_as_in_the_logs(small_days, n)
        assert sizes(small_days, n) < sizes(small_days, N_DAYS) / 3
    assert list(damages(small_days.settings)) == []


def test_a_day_that_is_computed_again_is_the_same(small_days: Pipeline):
    version = small_days.state.artifacts.version
    before = [version("interaction_matrix", day(n)) for n in (N_DAYS, *SMALL)]
    small_days.run(N_DAYS, only=MODEL)
    small_days.run(SMALL[1], only=MODEL)
    assert [version("interaction_matrix", day(n)) for n in (N_DAYS, *SMALL)] == before


def test_a_damaged_base_is_named_and_the_day_is_made_from_the_logs(small_days: Pipeline):
    folder = small_days.settings.artifacts_dir / "interaction_matrix" / str(day(N_DAYS))
    (array,) = folder.glob("*/interactions.npz")
    content = bytearray(array.read_bytes())
    content[len(content) // 2] ^= 1
    array.write_bytes(content)
    with pytest.raises(StaleArtifact, match=f"interaction_matrix of {day(N_DAYS)} is damaged"):
        small_days.state.matrix(day(SMALL[0]))
    (damage,) = damages(small_days.settings)
    assert damage.where == f"artifacts/interaction_matrix/{day(N_DAYS)}"
    third = SMALL[1] + 1
    small_days.deliver({f"{day(third)}.csv": lines_of(day(third), "user-00003")})
    small_days.run(third, only=SERVED)
    assert whole_day(small_days, third) is None
    assert_as_in_the_logs(small_days, third)
    said = small_days.metadata("interaction_matrix", third)["damage"]
    assert said.startswith(f"interaction_matrix of {day(N_DAYS)} is damaged")
    days = freshness(small_days.warehouse, small_days.state)
    behind = {one.day for one in days if "interaction_matrix" in one.reason}
    assert behind == {day(N_DAYS), *map(day, SMALL)}
    small_days.run(N_DAYS, SMALL[1], only=SERVED)
    assert list(damages(small_days.settings)) == []
    assert_as_in_the_logs(small_days, SMALL[0])


def test_a_base_that_is_gone_makes_its_days_stale(small_days: Pipeline):
    small_days.state.artifacts.remove("interaction_matrix", day(N_DAYS))
    found = {entry.day: entry for entry in freshness(small_days.warehouse, small_days.state)}
    for n in SMALL:
        assert found[day(n)].status == "stale"
        assert "stored as a change of that of 2024-03-05" in found[day(n)].reason


def test_erasure_goes_through_days_that_are_changes(small_days: Pipeline):
    with small_days.warehouse.connect() as connection:
        connection.execute("DELETE FROM raw_logs WHERE user_id = 'user-00001'")
    erase_from_days(small_days.warehouse, small_days.state)
    for n in (N_DAYS, *SMALL):
        assert_as_in_the_logs(small_days, n)
        anchor, sums, _ = small_days.state.moments(day(n))
        whole = type(sums).from_rows(small_days.state.matrix(day(n))[0], anchor)
        np.testing.assert_allclose(sums.pairs, whole.pairs, atol=1e-9)


def test_the_base_of_a_kept_day_is_kept(small_days: Pipeline):
    small_days.configure("retention_days = 0", "retention_days = 4")
    third, fourth = SMALL[1] + 1, SMALL[1] + 2
    for n in (third, fourth):
        small_days.deliver({f"{day(n)}.csv": lines_of(day(n), "user-00003")})
        small_days.run(n)
    kept = small_days.state.artifacts.days
    assert kept("decomposition") == [day(n) for n in (1, 6, 7, 8, 9)]
    assert kept("interaction_matrix") == [day(n) for n in (1, 5, 6, 7, 8, 9)]
    assert_as_in_the_logs(small_days, fourth)
