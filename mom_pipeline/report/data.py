"""The data of the page of a day: the model in use as of it, and what the warehouse knows."""

from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.comparison.results import Comparison, newest_until, versions
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.ranking.memberships import posterior_entropy
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.types import Float64
from mom_pipeline.logs.ledger import LedgerEntry, ledger_entries
from mom_pipeline.serving.diff import compare_versions
from mom_pipeline.serving.events import EventStore
from mom_pipeline.serving.rates import Rate, rates
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.rules import Rules
from mom_pipeline.serving.served_model import Manifest, ModelFigures, ServedModel
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Connection, Warehouse
from mom_pipeline.warehouse.lists import MetricsRow, latest_items, metrics_until

ERASED = "(erased)"
_LIBRARIES = ("mom-pipeline", "numpy", "scipy", "duckdb", "dagster", "implicit")
_TOP_ITEMS, _PEOPLE, _SHOWN = 4, 6, 8
# The most popular items, as a share of all; users whose memberships are looked at.
_HEAD, _SAMPLED = 0.1, 5_000


class NothingToReport(MomError):
    """There is no model to report on."""


@dataclass(frozen=True)
class ReportComponent:
    """One component. name: what sets it apart.  drift: since the day before, None without one."""

    name: str
    weight: float
    agreement: float
    drift: float | None
    top_items: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Person:
    """A user, what they took last, the newest first, and their list, the best first."""

    user: str
    history: tuple[str, ...]
    items: tuple[str, ...]


@dataclass(frozen=True)
class ListUse:
    """All lists together."""

    coverage: float  # share of the items that is in any list
    head_listed: float  # share of list entries that goes to the tenth most popular items
    head_taken: float  # the same of what people took


@dataclass(frozen=True)
class InUse:
    """How a model came in use."""

    since: str
    reason: str
    by: str
    before: str = ""  # the version that it replaced, "" where that is gone
    kept: float | None = None  # mean share of a list that is as with the version before
    compared: int = 0  # users with a list of both


@dataclass(frozen=True)
class ReportData:
    """The data of one day."""

    day: date
    settings: Settings
    manifest: Manifest
    figures: ModelFigures
    n_users: int
    n_items: int
    n_pairs: int
    components: tuple[ReportComponent, ...]
    entropy: Float64  # bits, of a sample of the users
    deliveries: tuple[LedgerEntry, ...]
    metrics: tuple[MetricsRow, ...]  # every evaluation up to the day
    comparison: Comparison | None  # the newest up to the day
    versions: dict[str, str]
    people: tuple[Person, ...] = ()
    list_use: ListUse | None = None  # None where no lists of the model are kept
    in_use: InUse | None = None  # None for a model that never was
    shown: tuple[Rate, ...] = ()


def gather(settings: Settings, day: date) -> ReportData:
    """Read all data of a day. Raises NothingToReport, or DamagedModel for a version not whole."""
    registry = ModelRegistry(settings.models_dir, mapped=settings.engine.mapped)
    served = registry.load(reported_version(registry, day))
    if served.figures is None:
        raise NothingToReport(f"{served.manifest.version} has no figures of its fit")
    rules = Rules.of(settings)
    recommender, catalogue = Recommender(served, rules), rules.catalogue
    # Some users, the same every time: neither the first nor the busiest.
    order = np.random.default_rng(0).permutation(len(served.user_ids))
    users = [str(served.user_ids[u]) for u in order[:_PEOPLE]]
    with Warehouse(settings).reading() as connection:
        deliveries = tuple(e for e in ledger_entries(connection) if e.delivery_day <= day)
        metrics = tuple(metrics_until(connection, day))
        people = tuple(_person(connection, recommender, catalogue, user, day) for user in users)
        use = _list_use(connection, served)
    model, X = served.model, served.histories
    sampled = X[:: max(1, -(-X.shape[0] // _SAMPLED))]
    return ReportData(
        day=day,
        settings=settings,
        manifest=served.manifest,
        figures=served.figures,
        n_users=X.shape[0],
        n_items=int((model.popularity > 0).sum()),
        n_pairs=int(X.nnz),
        components=_components(served, served.figures, recommender),
        entropy=posterior_entropy(model.memberships(sampled)),
        deliveries=deliveries,
        metrics=metrics,
        comparison=newest_until(settings.comparisons_dir, day),
        versions={"code of the model": served.manifest.code_version, **versions(_LIBRARIES)},
        people=people,
        list_use=use,
        in_use=_in_use(registry, served, rules),
        shown=tuple(rates(EventStore(settings))),
    )


def reported_version(registry: ModelRegistry, day: date) -> str:
    """The version in use as of a day; without one, that of the day itself."""
    own = [name for name in registry.names() if name.startswith(day.isoformat())]
    version = registry.version_as_of(day) or next(reversed(own), None)
    if version is None:
        raise NothingToReport(
            f"no model was in use as of {day}, and none of that day is kept; `mom-pipeline models` "
            "lists those there are, and `mom-pipeline update` computes what is missing"
        )
    return version


def _person(
    connection: Connection, recommender: Recommender, catalogue: Catalogue, user: str, day: date
) -> Person:
    took = latest_items(connection, user, day, _SHOWN)
    listed = recommender.recommend(user, _SHOWN).items
    return Person(
        user,
        tuple(catalogue.name(item) or item for item in took),
        tuple(line.name or line.item for line in listed),
    )


def _list_use(connection: Connection, served: ServedModel) -> ListUse | None:
    """How the stored lists of a model use the catalogue."""
    listed = connection.execute(
        "SELECT item_id, count(*) FROM recommendations WHERE model = $model GROUP BY item_id",
        {"model": served.manifest.version},
    ).fetchall()
    if not listed:
        return None
    popularity, positions = served.model.popularity, served.item_positions
    counts = np.zeros(len(popularity))
    for item, count in listed:
        counts[positions[item]] = count
    n_taken = int((popularity > 0).sum())
    head = np.argsort(-popularity, kind="stable")[: max(1, round(_HEAD * n_taken))]
    return ListUse(
        coverage=len(listed) / max(n_taken, 1),
        head_listed=float(counts[head].sum() / counts.sum()),
        head_taken=float(popularity[head].sum()),
    )


def _components(
    served: ServedModel, figures: ModelFigures, recommender: Recommender
) -> tuple[ReportComponent, ...]:
    O, pi, own = served.model.item_probs, served.model.weights, figures.days[-1]
    best, _ = top_n(O.T, min(_TOP_ITEMS, len(O)))
    names, named = recommender.groups.names, recommender.groups.named
    return tuple(
        ReportComponent(
            name=names[k].name,
            weight=float(pi[k]),
            agreement=own.agreement[k],
            drift=own.drift[k] if len(figures.days) > 1 else None,
            top_items=tuple(
                (item.name or item.item or ERASED, float(O[y, k]))
                for y in best[k].tolist()
                if O[y, k] > 0
                for item in [named(y)]
            ),
        )
        for k in range(len(pi))
    )


def _in_use(registry: ModelRegistry, served: ServedModel, rules: Rules) -> InUse | None:
    """When and why the model came in use, and how its lists differ from those of the one before."""
    version, history = served.manifest.version, registry.history()
    last = next((e for e in reversed(history) if e.version == version), None)
    if last is None:
        return None
    came = InUse(since=last.time[:10], reason=last.reason, by=last.by)
    earlier = [e.version for e in history[: history.index(last)] if e.version != version]
    try:
        before = compare_versions(registry.load(earlier[-1]), served, rules, _SHOWN)
    except (IndexError, MomError):
        return came
    kept = before.mean_kept if before.compared else None
    return replace(came, before=earlier[-1], kept=kept, compared=before.compared)
