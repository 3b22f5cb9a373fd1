from datetime import date

from mom_pipeline.artifacts.timings import record_seconds, seconds_of

DAY = date(2024, 3, 1)


def test_the_newest_run_of_a_day_counts(tmp_path):
    assert seconds_of(tmp_path, DAY) == {}
    record_seconds(tmp_path, "raw_logs", {"2024-03-01": 1.5, "2024-03-02": 2.0})
    record_seconds(tmp_path, "raw_logs", {"2024-03-01": 0.5})
    record_seconds(tmp_path, "decomposition", {"2024-03-02": 3.0})
    assert seconds_of(tmp_path, DAY) == {"raw_logs": 0.5}
    assert seconds_of(tmp_path, date(2024, 3, 2)) == {"raw_logs": 2.0, "decomposition": 3.0}


def test_a_damaged_file_is_no_failure(tmp_path):
    record_seconds(tmp_path, "raw_logs", {"2024-03-01": 1.5})
    (tmp_path / "timings" / "raw_logs.json").write_text("{broken")
    assert seconds_of(tmp_path, DAY) == {}
    record_seconds(tmp_path, "raw_logs", {"2024-03-01": 2.5})
    assert seconds_of(tmp_path, DAY) == {"raw_logs": 2.5}
