"""The ledger of what was made of each day, and of the runs."""

from dataclasses import replace
from datetime import date

import pytest

from mom_pipeline.warehouse.materializations import (
    Materialization,
    begin_run,
    end_run,
    forget_days,
    materializations,
    record,
    runs,
)
from mom_pipeline_tests.data_folder import DataFolder

DAYS = [date(2024, 3, n) for n in (1, 2, 3)]
MADE = Materialization(
    *("decomposition", DAYS[0], "v1", {"m2_statistics": "ä"}, "settings", "12"),
    facts={"agreement": [0.5, 1.0], "mode": "full: 'why'"},
)


def test_a_row_comes_back_as_it_was_and_replaces_the_one_before(folder: DataFolder):
    with folder.warehouse.connect() as connection:
        record(connection, replace(MADE, version="earlier", sound=False))
        record(connection, MADE)
        record(connection, replace(MADE, asset="report"))
        assert materializations(connection) == {
            ("decomposition", DAYS[0]): MADE,
            ("report", DAYS[0]): replace(MADE, asset="report"),
        }


def test_a_day_and_all_later_ones_are_forgotten(folder: DataFolder):
    with folder.warehouse.connect() as connection:
        for day in DAYS:
            record(connection, replace(MADE, day=day))
            record(connection, replace(MADE, day=day, asset="raw_logs"))
        forget_days(connection, DAYS[1], besides=["raw_logs"])
        left = sorted(materializations(connection))
    assert left == [("decomposition", DAYS[0]), *(("raw_logs", day) for day in DAYS)]


def test_a_run_without_an_end_is_seen(folder: DataFolder):
    with folder.warehouse.connect() as connection:
        for run_id in ("first", "second", "third"):
            begin_run(connection, run_id, DAYS[0], DAYS[2])
        begin_run(connection, "first", DAYS[1], DAYS[2])  # another step of it
        end_run(connection, "first", "")
        end_run(connection, "second", "decomposition failed: it's odd")
        found = runs(connection)
    assert [(run.run_id, run.failure) for run in found] == [
        ("first", ""),
        ("second", "decomposition failed: it's odd"),
        ("third", None),
    ]
    assert {(run.first, run.last) for run in found} == {(DAYS[0], DAYS[2])}


def test_a_fact_that_is_no_number_is_refused(folder: DataFolder):
    with folder.warehouse.connect() as connection, pytest.raises(ValueError, match="JSON"):
        record(connection, replace(MADE, facts={"residual": float("nan")}))
