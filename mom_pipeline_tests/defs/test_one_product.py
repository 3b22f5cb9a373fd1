"""One product: table, export, HTTP, Python, report and explorer give the lists of one model."""

from collections.abc import Mapping, Sequence

import duckdb
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from mom_pipeline import Recommender
from mom_pipeline.cli.main import cli
from mom_pipeline.report.page import write_report
from mom_pipeline.serving.champion import Champion
from mom_pipeline.serving.http import create_app
from mom_pipeline.serving.lists import export_path

from .conftest import N_DAYS, Pipeline, day

Lists = Mapping[str, Sequence[str]]


def command(pipeline: Pipeline, *arguments: str) -> None:
    done = CliRunner(env={"MOM_DATA_DIR": str(pipeline.root)}).invoke(cli, arguments)
    assert done.exit_code == 0, done.output


def all_six(pipeline: Pipeline) -> tuple[str, dict[str, Lists]]:
    """The version that all of them name, and the lists of some people by who gives them."""
    settings, n = pipeline.settings, pipeline.settings.serving.list_length
    page = write_report(settings, day(N_DAYS)).data
    assert page is not None
    users = [person.user for person in page.people]
    by_sql = "SELECT list(item_id ORDER BY rank) FROM {} WHERE user_id = '{}'"
    table = {user: pipeline.query(by_sql.format("recommendations", user))[0][0] for user in users}
    file = f"'{export_path(settings)}'"
    export = {user: duckdb.sql(by_sql.format(file, user)).fetchall()[0][0] for user in users}
    python, http, explorer = Recommender.open(settings.data_dir), {}, {}
    versions = {page.manifest.version, python.version}
    versions |= {model for (model,) in pipeline.query("SELECT DISTINCT model FROM recommendations")}
    versions |= {model for (model,) in duckdb.sql(f"SELECT DISTINCT model FROM {file}").fetchall()}
    with Champion(settings) as champion:
        client = TestClient(create_app(champion))
        for user in users:
            answer = client.get(f"/recommend/{user}", params={"n": n}).json()
            http[user] = [line["item"] for line in answer["items"]]
            told = [
                client.get("/explain", params={"user": user, "item": item}).json()
                for item in table[user]
            ]
            explorer[user] = [e["item"] for e in sorted(told, key=lambda e: -e["score"])]
            versions |= {answer["model"], *(entry["model"] for entry in told)}
    (version,) = versions
    return version, {
        "table": table,
        "export": export,
        "http": http,
        "python": {u: [line.item for line in python.recommend(u, n).items] for u in users},
        "report": {person.user: list(person.items[:n]) for person in page.people},
        "explorer": explorer,
    }


def same_lists(pipeline: Pipeline) -> tuple[str, Lists]:
    version, six = all_six(pipeline)
    lists = six["python"]
    assert len(lists) == 6
    assert all(len(items) == pipeline.settings.serving.list_length for items in lists.values())
    for name, found in six.items():
        assert found == lists, name
    return version, lists


@pytest.mark.parametrize(
    "ranking", ["three-moment", pytest.param("components", marks=pytest.mark.long)]
)
def test_after_a_refused_model_and_after_a_rollback(
    empty: Pipeline, log_files: Mapping[str, bytes], ranking: str
):
    empty.configure('ranking = "components"', f'ranking = "{ranking}"')
    empty.deliver(log_files)
    empty.run(1, N_DAYS - 1)
    earlier, lists_before = same_lists(empty)
    empty.run(N_DAYS)
    version, lists = same_lists(empty)
    assert (earlier[:10], version[:10]) == (str(day(N_DAYS - 1)), str(day(N_DAYS)))
    assert lists != lists_before

    # Everybody's list is of popular items: a loss.
    empty.configure(f'ranking = "{ranking}"', 'ranking = "components"')
    empty.configure("n_components = 3", "n_components = 1")
    empty.run(N_DAYS - 2, N_DAYS)
    assert not empty.metadata("promotion", N_DAYS)["promoted"]
    assert same_lists(empty) == (version, lists)

    command(empty, "rollback")
    assert same_lists(empty) == (earlier, lists_before)
    empty.run(N_DAYS)  # a person's choice stays
    assert same_lists(empty) == (earlier, lists_before)
    command(empty, "promote", version)
    assert same_lists(empty) == (version, lists)
