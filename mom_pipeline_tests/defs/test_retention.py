"""Old days leave the disk; the ledger and the metrics stay, and the pipeline goes on."""

import pytest

from mom_pipeline.pipeline.days import NotUsable

from .conftest import N_DAYS, Pipeline, day, lines_of

KEPT, NEXT = 4, N_DAYS + 1
METRICS = "SELECT * FROM evaluation_metrics ORDER BY ALL"


def stored(pipeline: Pipeline, asset: str) -> list[str]:
    return sorted({path.name[:10] for path in (pipeline.root / "artifacts" / asset).glob("*.npz")})


def test_arrays_go_the_ledger_and_the_metrics_stay_and_late_data_converge(
    copied: Pipeline, backfilled: Pipeline, log_files
):
    """A sixth day, of which the last four keep their arrays; then late data of an old one."""
    copied.configure("retention_days = 0", f"retention_days = {KEPT}")
    copied.deliver({f"{day(NEXT)}.csv.gz": log_files[f"{day(N_DAYS)}.csv.gz"]})
    copied.run(NEXT)
    kept = [str(day(n)) for n in range(NEXT - KEPT + 1, NEXT + 1)]
    for asset in ("interaction_matrix", "m2_statistics", "decomposition", "user_personalization"):
        assert stored(copied, asset) == kept
    assert stored(copied, "moment_sums") == kept[-2:]
    assert stored(copied, "anchor") == [str(day(1))]  # which the kept days rest on
    assert copied.mode(NEXT) == "incremental"
    assert copied.states() == ["fresh"] * NEXT
    assert copied.query(METRICS)[: 3 * 2 * 3] == backfilled.query(METRICS)
    with pytest.raises(NotUsable, match="gone"):
        copied.days.model(day(2))
    assert copied.days.model(day(3)).item_probs.shape[1] == 3

    copied.deliver({f"{day(2)}-late.csv": lines_of(day(2), "ben-00001")})
    assert copied.behind() == [(str(day(2)), str(day(NEXT)))]
    copied.update()
    assert copied.states() == ["fresh"] * NEXT
    assert stored(copied, "decomposition") == kept
