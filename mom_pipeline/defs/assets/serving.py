"""Group `serving`: memberships and lists, for the users that a day asks for."""

from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg
import numpy as np

from mom_pipeline.artifacts.day_artifacts import StaleArtifact
from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.catalogue import Catalogue, shortened
from mom_pipeline.core.evaluation.drift import list_drift
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import changed_rows
from mom_pipeline.core.moments.users import UserRows
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.core.visits import HistoryOf, refresh_memberships, visit_lists
from mom_pipeline.defs import checks, metadata
from mom_pipeline.defs.assets.model import decomposition
from mom_pipeline.defs.conditions import DAILY_FRESH
from mom_pipeline.defs.days import DayOutput, Materialized, content_hash, daily_asset, for_each_day
from mom_pipeline.defs.engine import EngineResource
from mom_pipeline.defs.partitions import YESTERDAY
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.warehouse import recommendations as lists

_SHOWN_ITEMS = 10
# Users whose lists tell whether everyone's would change.
_ASKED = 128


@dataclass(frozen=True)
class _Visit:
    """Which users a day visits, with the model of which day, and why.

    previous: memberships that the other users keep; None when everyone is visited.
    """

    users: Array
    model_day: date
    previous: Array | None
    reason: str


@daily_asset(
    "serving",
    {"numpy"},
    [
        decomposition,
        dg.AssetDep("user_personalization", partition_mapping=YESTERDAY),
    ],
    revision=1,
)
def user_personalization(
    context: dg.AssetExecutionContext, data_folder: DataFolder, engine: EngineResource
) -> Materialized:
    """P[component | user] of every user.

    Users whose history changed are visited every day; everyone is when the lists of the others
    would change by more than `serving.refresh_drift` since everyone was visited last.
    """
    state = data_folder.state

    def compute(day: date) -> DayOutput:
        rows = state.rows(day)
        visit = _visit(state, engine, day, rows.X)
        model, parent = state.model(visit.model_day, engine, with_pairs=False)
        history = HistoryOf(model, state.half_life(day))
        P = engine.array((rows.X.shape[0], len(model.weights)), model.item_probs.dtype)
        refresh_memberships(history, engine.users(rows), visit.users, visit.previous, P)
        verdicts = [checks.distributions("posteriors", posteriors=P.T)]
        written = state.write(
            "user_personalization",
            day,
            {"memberships": P, "visited": visit.users},
            {"decomposition": parent.version, "interaction_matrix": rows.version},
            {"model_day": visit.model_day.isoformat()},
            sound=checks.sound(verdicts),
        )
        shown = {
            "users_visited": len(visit.users),
            "visited_because": visit.reason,
            "model_day": visit.model_day.isoformat(),
            **metadata.entropy(P, rows.X),
        }
        summary = f"{len(visit.users)} users visited: {visit.reason}"
        return DayOutput(written.version, summary, shown, verdicts)

    return for_each_day(context, compute)


def _visit(state: DayState, engine: EngineResource, day: date, X: Csr) -> _Visit:
    everyone, yesterday = np.arange(X.shape[0]), state.day_before(day)
    try:
        before = state.built_on("user_personalization", yesterday, "interaction_matrix")
        rows = state.rows(yesterday).X
        model_day = date.fromisoformat(before.metadata["model_day"])
        served, made = state.model(model_day, engine)
        if made.version != before.parents["decomposition"]:
            raise StaleArtifact(f"the decomposition of {model_day} was replaced")
        if state.chosen(day).method != state.chosen(model_day).method:
            raise StaleArtifact(f"other settings were chosen since {model_day}")
    except StaleArtifact as reason:
        return _Visit(everyone, day, None, f"everyone: {reason}")
    # Users who are new have no list yet, also when the filters left nothing of their history.
    new = np.arange(rows.shape[0], X.shape[0])
    users = np.union1d(changed_rows(rows, X), new)
    allowed = state.settings.serving.refresh_drift
    if not allowed:
        return _Visit(everyone, day, None, "everyone: serving.refresh_drift is 0")
    moved = _lists_moved(state, engine, day, served, np.setdiff1d(everyone, users))
    if moved > allowed:
        return _Visit(everyone, day, None, f"everyone: {moved:.1%} of the lists would change")
    return _Visit(users, model_day, before.dense["memberships"], "changed histories")


def _lists_moved(
    state: DayState, engine: EngineResource, day: date, served: FittedModel, unchanged: Array
) -> float:
    """How much of the lists of some users the model of a day would fill otherwise."""
    today, serving = state.model(day, engine)[0], state.settings.serving
    some = unchanged[:: -(-len(unchanged) // _ASKED) or 1]
    rows = state.rows(day)
    asked = UserRows(some, rows.X[some], rows.last_days[some])
    lists = (
        model.best(
            HistoryOf(model, state.half_life(day))(asked),
            serving.list_length,
            exclude_seen=serving.exclude_seen,
        ).items
        for model in (today, served)
    )
    return list_drift(*lists)


@daily_asset(
    "serving",
    {"duckdb", "table"},
    [user_personalization],
    revision=1,
    uses_warehouse=True,
    freshness_policy=DAILY_FRESH,
)
def recommendations(
    context: dg.AssetExecutionContext, data_folder: DataFolder, engine: EngineResource
) -> Materialized:
    """The best items of every user, each with its reason: a table in the warehouse.

    A day writes the lists of the users that it visited, in one transaction; the list of any
    other user is the newest of an earlier day. Users without a history get what is popular.
    All lists as of the day are exported to `exports/recommendations/<day>.parquet`.
    """
    state = data_folder.state
    serving, folder = state.settings.serving, state.settings.exports_dir / "recommendations"
    catalogue = Catalogue.open(state.settings.data_dir)

    def compute(day: date) -> DayOutput:
        personalized = state.built_on("user_personalization", day, "interaction_matrix")
        visited, P = personalized.dense["visited"], personalized.dense["memberships"]
        model_day = personalized.metadata["model_day"]
        model, made = state.model(date.fromisoformat(model_day), engine)
        parts = visit_lists(
            HistoryOf(data_folder.listing(model), state.half_life(day)),
            engine.users(state.rows(day)),
            visited,
            P,
            serving.list_length,
            exclude_seen=serving.exclude_seen,
        )
        name = f"{model_day} {made.version[:12]}"
        with data_folder.warehouse.connect() as connection:
            stored = lists.replace_lists(connection, day, name, parts)
            listed = lists.listed_items(connection, day)
            favourites = lists.most_listed(connection, day, _SHOWN_ITEMS)
            exported = lists.export_lists(connection, day, folder, catalogue)
        shown = {
            "rows": stored.rows,
            "users": len(visited),
            "users_without_history": stored.n_newcomers,
            "coverage": listed / max(model.n_items, 1),
            "ranking": _ranking(state, model_day),
            "most_listed": metadata.table([_named(catalogue, row) for row in favourites]),
            "export": dg.MetadataValue.path(exported.resolve()),
        }
        version = content_hash(personalized.version, stored.contents)
        return DayOutput(version, f"{stored.rows} rows for {len(visited)} users", shown)

    return for_each_day(context, compute)


def _named(catalogue: Catalogue, row: dict[str, Any]) -> dict[str, Any]:
    """A row with the name of its item, where there is one."""
    name = catalogue.name(row["item"])
    return {**row, "name": shortened(name)} if catalogue.items else row


def _ranking(state: DayState, model_day: str) -> str:
    """What the lists are made of."""
    if state.chosen(date.fromisoformat(model_day)).model.ranking == "components":
        return "components: P[item | user]"
    return f"three-moment: pairs and components of {model_day}"
