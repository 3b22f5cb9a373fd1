"""Data of a made-up day, with the worst texts that users, files and methods could bring."""

from dataclasses import asdict, replace
from datetime import date, timedelta

import numpy as np
import pytest

from mom_pipeline.comparison.results import Comparison, DataDescription, Interval, MethodResult
from mom_pipeline.core.evaluation.theorem1 import theorem_1
from mom_pipeline.logs.ledger import LedgerEntry
from mom_pipeline.report.data import InUse, ListUse, Person, ReportComponent, ReportData
from mom_pipeline.report.page import render
from mom_pipeline.serving.rates import Rate, wilson
from mom_pipeline.serving.served_model import FitFigures, Manifest, ModelFigures
from mom_pipeline.settings import ModelSettings, Settings
from mom_pipeline.warehouse.lists import MetricsRow

HOSTILE = "<script>document.title='taken'</script>\"'&<img src=x onerror=alert(1)>"
LONG = "an-item-id-without-a-single-blank-" * 6
DAY = date(2024, 3, 28)
CUTOFFS = (5, 20, 100)


def method(name: str, title: str, level: float, *, failure: str = "") -> MethodResult:
    """A method whose metrics all lie at about one level."""
    if failure:
        return MethodResult(name, title, failure=failure)
    rising = tuple(level * k**0.3 for k in CUTOFFS)
    falling = tuple(level / k**0.3 for k in CUTOFFS)
    intervals = tuple(Interval(-0.01, -0.02, 0.001) for _ in CUTOFFS)
    differences = {} if name == "three-moment" else dict.fromkeys(("recall", "map"), intervals)
    return MethodResult(
        name,
        title,
        settings={"n_components": 8, "regularization": 0.01},
        means={"precision": falling, "recall": rising, "map": rising, "ndcg": rising},
        coverage=(0.1, 0.2, 0.3),
        novelty=(3.0, 4.0, 5.0),
        differences=differences,
        fit_seconds=1.5,
        peak_bytes=10**8,
    )


def comparison() -> Comparison:
    return Comparison(
        data=DataDescription("shop <b>x</b> $1 $_", 2000, 500, 30000, 9000),
        period="train 2024-03-01 to 2024-03-21, test after",
        cutoffs=CUTOFFS,
        reference="three-moment",
        n_users=1974,
        n_dropped=84,
        exclude_seen=True,
        seed=0,
        results=(
            method("popularity", "Popularity", 0.02),
            method("wrmf", "WRMF", 0.08, failure=f"needs {HOSTILE}"),
            method("three-moment", "Three moments", 0.09),
        ),
        day="2024-03-28",
        created="2024-03-29T01:00:00+00:00",
        machine="2 cores",
    )


def components(n: int) -> tuple[ReportComponent, ...]:
    names = [HOSTILE, LONG, *(f"item-{k}" for k in range(6))]
    items = tuple((name, 0.2 / (k + 1)) for k, name in enumerate(names))
    agreement = np.linspace(1, 0.2, n)
    return tuple(
        ReportComponent(f"{k} {HOSTILE}", 1 / n, float(a), None if k else 0.01, items)
        for k, a in enumerate(agreement)
    )


def metrics() -> tuple[MetricsRow, ...]:
    days = [(DAY - timedelta(days=ago), DAY - timedelta(days=ago + 7)) for ago in (1, 0)]
    return tuple(
        MetricsRow(*pair, ranking, k, level / k, level * k, level, level, 1974)
        for pair in days
        for ranking, level in (("classes", 0.004), ("popularity", 0.001))
        for k in CUTOFFS
    )


def delivery(day: date) -> LedgerEntry:
    counts, reasons = (2600, 1, 2590, 9, 2), {HOSTILE: 7, "no user": 2}
    return LedgerEntry(f"{day}.csv", day, 20_000, "0" * 64, *counts, reasons, "{}", "2024-03-29")


@pytest.fixture(scope="session")
def report_data(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    spectrum = np.geomspace(5e-5, 1e-6, 16)
    shown = components(8)
    days = tuple(
        FitFigures(
            day=str(DAY - timedelta(days=ago)),
            full=ago == 9,
            changed_users=900,
            users=2400,
            captured_share=0.98,
            drift=(0.02,) * 8,
            agreement=tuple(component.agreement for component in shown),
            mean_agreement=0.6,
        )
        for ago in range(9, -1, -1)
    )
    figures = ModelFigures(
        spectrum=tuple(spectrum),
        residual=0.01,
        weight_sum=0.97,
        negative_mass=0.02,
        bounds=theorem_1(2436, (16.0, 400.0, 15000.0), spectrum[:8], np.full(8, 1 / 8)),
        days=days,
    )
    return ReportData(
        day=DAY,
        settings=Settings(data_dir=tmp_path_factory.mktemp("report")),
        manifest=Manifest("2024-03-27-def", "2024-03-27", "1", "", asdict(ModelSettings()), {}, {}),
        figures=figures,
        n_users=2436,
        n_items=512,
        n_pairs=40_375,
        components=shown,
        entropy=np.random.default_rng(0).exponential(0.4, 2436),
        deliveries=tuple(delivery(DAY - timedelta(days=ago)) for ago in range(40, -1, -1)),
        metrics=metrics(),
        comparison=comparison(),
        versions={"python": "3.11"},
        people=(Person(HOSTILE, (HOSTILE, LONG), ("item-1",)), Person(LONG, (), (LONG, HOSTILE))),
        list_use=ListUse(coverage=0.61, head_listed=0.42, head_taken=0.30),
        in_use=InUse("2024-03-28", HOSTILE, "gate", "2024-03-21-abc", 0.75, 100),
        shown=tuple(
            Rate(by, of, HOSTILE, 400, 13, 13 / 400, *wilson(13, 400))
            for by, of in (("day", "2024-03-27"), ("day", "2024-03-28"), ("place", "1"))
        ),
    )


@pytest.fixture(scope="session")
def report_html(report_data: ReportData) -> str:
    """The page, rendered once."""
    return render(report_data)


@pytest.fixture
def bare_data(report_data: ReportData) -> ReportData:
    """The first day of all: nothing to compare, nothing to look back at."""
    figures = report_data.figures.model_copy(update={"days": report_data.figures.days[-1:]})
    return replace(
        report_data,
        figures=figures,
        metrics=(),
        comparison=None,
        people=(),
        list_use=None,
        in_use=None,
        shown=(),
    )
