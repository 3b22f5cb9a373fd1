"""Old days leave the disk; the ledger and the metrics stay, and the pipeline goes on."""

import pytest

from mom_pipeline.pipeline.days import NotUsable

from .conftest import N_DAYS, Pipeline, day, lines_of

KEPT, NEXT = 4, N_DAYS + 1
METRICS = "SELECT * FROM evaluation_metrics ORDER BY ALL"


@pytest.fixture
def retaining(copied: Pipeline, log_files) -> Pipeline:
    """The finished folder with a sixth day, of which the last four keep their arrays."""
    copied.configure("retention_days = 0", f"retention_days = {KEPT}")
    copied.deliver({f"{day(NEXT)}.csv.gz": log_files[f"{day(N_DAYS)}.csv.gz"]})
    copied.run(NEXT)
    return copied


def stored(pipeline: Pipeline, asset: str) -> list[str]:
    return sorted({path.name[:10] for path in (pipeline.root / "artifacts" / asset).glob("*.npz")})


def test_arrays_go_and_the_ledger_and_the_metrics_stay(retaining: Pipeline, backfilled: Pipeline):
    kept = [str(day(n)) for n in range(NEXT - KEPT + 1, NEXT + 1)]
    for asset in ("interaction_matrix", "m2_statistics", "decomposition", "user_personalization"):
        assert stored(retaining, asset) == kept
    assert stored(retaining, "moment_sums") == kept[-2:]
    assert stored(retaining, "anchor") == [str(day(1))]  # which the kept days rest on
    assert retaining.mode(NEXT) == "incremental"
    assert retaining.states() == ["fresh"] * NEXT
    assert retaining.query(METRICS)[: 3 * 2 * 3] == backfilled.query(METRICS)
    with pytest.raises(NotUsable, match="gone"):
        retaining.days.model(day(2))
    assert retaining.days.model(day(3)).item_probs.shape[1] == 3


def test_late_data_of_an_old_day_ask_for_it_and_converge(retaining: Pipeline):
    retaining.deliver({f"{day(2)}-late.csv": lines_of(day(2), "ben-00001")})
    assert retaining.behind() == [(str(day(2)), str(day(NEXT)))]
    retaining.update()
    assert retaining.states() == ["fresh"] * NEXT
    assert stored(retaining, "decomposition")[0] == str(day(NEXT - KEPT + 1))
