"""`mom-pipeline reproduce --quick` by real processes, and its page in a real browser."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.bench.claims import claims_of
from mom_pipeline.bench.paper import SIZES
from mom_pipeline.bench.reproduction import (
    QUICK,
    Plan,
    log_split,
    render_reproduction,
    simulated_split,
)
from mom_pipeline_tests.cli.conftest import mom

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The page of the command, what it prints, and what it measured."""
    folder, measured = tmp_path_factory.mktemp("reproduce"), []

    def noted(result):
        measured.append(result)
        return claims_of(result)

    smaller = replace(QUICK, sizes=(SIZES["tafeng"].shrunk(30),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mom_pipeline.cli.bench.claims_of", noted)
        patch.setattr("mom_pipeline.cli.bench.QUICK", smaller)
        printed = mom(folder, "reproduce", "--quick", "--json").json
    return Path(printed["page"]), printed, measured[0]


def test_every_claim_has_a_figure_a_verdict_and_a_command(written):
    page, printed, result = written
    rows = {row["method"]: row for row in result.rows}
    assert [row["failure"] for row in rows.values()] == [""] * 4
    ratio = rows["plsi"]["seconds"] / rows["mom"]["seconds"]
    assert rows["plsi"]["to_mom"] == pytest.approx(ratio)
    assert [r.failure for made in result.simulated for r in made.results] == [""] * 5
    claims = printed["claims"]
    assert len(claims) >= 10
    assert f"{result.recovery['after_em'][-1]['refined']:.4g}" in page.read_text()
    for claim in claims:
        assert all(claim[part] for part in claim)
    verdicts = {claim["title"]: claim["verdict"] for claim in claims}
    assert verdicts["The error falls as 1/√N"] == "does not hold"
    assert verdicts["Three passes over the data"] == "holds in part"
    assert verdicts["MoM takes the time of BPR"] == "not measured"
    assert not list((page.parents[1] / "tmp").glob("reproduce-*"))


@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_in_a_browser(written, browser, width):
    path, printed, _ = written
    context = browser.new_context(viewport={"width": width, "height": 900})
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    sizes = page.evaluate(
        "() => Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))"
    )
    text = page.locator("body").inner_text()
    context.close()
    assert widths[0] <= widths[1]
    assert len(sizes) == 3, "the error, and the two panels of Figure 2"
    assert min(sizes) > 100
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert "levels off" in text.split("Contents")[0][:600], "the finding is the headline"
    for claim in printed["claims"]:
        assert claim["title"] in text
        assert claim["ours"] in text
        assert claim["command"] in text
    for words in ("Table 1", "5.44×10⁻⁴", "2,200", "Quick run", "import tafeng"):
        assert words in text


def test_a_log_with_a_hostile_name_is_shown_as_text(written):
    *_, result = written
    (simulated,) = result.simulated
    hostile = replace(simulated, data=replace(simulated.data, name=HOSTILE))
    result = replace(result, logs=(hostile,))
    page = render_reproduction(result, claims_of(result))
    assert "<script" not in page
    assert "Figure 2: &lt;script&gt;" in page


def test_options_that_cannot_be(tmp_path):
    said = mom(tmp_path, "reproduce", "--sizes", "netflix", code=2).stderr
    assert "tafeng, million-song, yandex" in " ".join(said.split())
    (tmp_path / "reports").write_text("a file where the folder belongs")
    assert "cannot be written" in mom(tmp_path, "reproduce", "--quick", code=2).stderr


def test_simulated_data_hide_the_papers_number_of_test_tuples():
    size = SIZES["tafeng"].shrunk(100)
    split = simulated_split(size)
    assert split.data.train_tuples == size.n_pairs
    assert split.data.test_tuples == size.n_test_pairs
    assert split.windows == ()
    again = simulated_split(size)
    np.testing.assert_array_equal(split.final.test.indices, again.final.test.indices)
    seen = split.final.train.multiply(split.final.test_in_catalogue())
    assert seen.nnz == 0, "what is hidden is not in the history"


def test_three_quarters_of_a_log_or_the_days_that_a_publication_names_are_trained_on(folder):
    rng, deliveries = np.random.default_rng(0), {}
    for day in (f"2024-03-{number:02d}" for number in range(1, 6)):
        pairs = zip(rng.integers(0, 20, 60), rng.integers(0, 15, 60), strict=True)
        lines = ["user,item,timestamp", *(f"u{u},i{i},{day}T10:00:00" for u, i in pairs)]
        deliveries[f"{day}.csv"] = "\n".join(lines) + "\n"
    folder.take_all(deliveries.items())
    split = log_split(folder.warehouse, (), "shop", QUICK)
    days = "train 2024-03-01 to 2024-03-04, test 2024-03-05 to 2024-03-05"
    assert split.period == f"{days}; default settings"
    assert split.windows == ()
    full = log_split(folder.warehouse, (), "shop", Plan())
    assert full.windows
    assert full.period.startswith(f"{days}; settings chosen on")
    odd = tuple(date(2024, 3, number) for number in (1, 3, 5))
    named = log_split(folder.warehouse, odd, "months", QUICK)
    assert named.period.startswith("train 3 days of the dataset")
