"""Both ways of a switch are measured, and the chosen one is one of them."""

from mom_pipeline.bench.switches import run_switches, tables_switches


def test_every_switch_is_walked_across() -> None:
    result = run_switches(4, items=(200, 900), catalogues=(8_200, 26_000), repeats=1)
    chosen: dict[str, set[str]] = {}
    for row in result["rows"]:
        assert row["chosen"] in row["seconds"]
        assert row["to_the_better"] >= 1
        chosen.setdefault(row["switch"], set()).add(row["chosen"])
    assert chosen["eigenpairs"] == {"LAPACK", "Krylov"}
    assert chosen["pairs of a history"] == {"dense", "sparse"}
    assert chosen["lists"] == {"whole", "head"}
    assert set(chosen) == {"M2", "eigenpairs", "precision", "pairs of a history", "lists"}
    (table,) = tables_switches(result)
    assert len(table.rows) == len(result["rows"])
