"""`BENCHES`: every benchmark with its options, from which `mom-pipeline bench` makes commands.

A bench NAME of the module M is `M.run_NAME(**arguments, progress=...)`, a dash as _. It returns
plain values for JSON; `M.tables_NAME(result)` makes tables of them, or all values are one table.
`M.plot_NAME(result)` returns a PNG file where the bench has a picture. Modules are imported only
when their bench runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from mom_pipeline.bench.measure import Progress, Table, value_table


@dataclass(frozen=True)
class Option:
    """An option of a bench.

    name: as typed, without dashes.  argument: of the function; empty: as the name.
    choices: the values that are allowed.  several: comma-separated ones of them.
    least: of a number.
    """

    name: str
    default: Any
    help: str = ""
    argument: str = ""
    choices: tuple[str, ...] = ()
    several: bool = False
    least: int | None = None


@dataclass(frozen=True)
class Bench:
    """A measurement.

    help: what it measures.  folder: whether it takes the folder of a data set.
    plot: help of the option for a picture; empty: there is none.
    """

    name: str
    module: str
    title: str
    help: str
    options: tuple[Option, ...] = ()
    folder: bool = False
    plot: str = ""

    def run(self, progress: Progress, **arguments: Any) -> dict[str, Any]:
        """Measure, and return plain values for JSON."""
        result: dict[str, Any] = self._function("run")(**arguments, progress=progress)
        return result

    def tables(self, result: dict[str, Any]) -> Sequence[Table]:
        """Return what to print of a result."""
        tables = self._function("tables")
        return [value_table(self.title, result)] if tables is None else tables(result)

    def draw(self, result: dict[str, Any], path: Path) -> None:
        """Write the picture of a result."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._function("plot")(result))

    def _function(self, kind: str) -> Callable[..., Any] | Any:
        module = import_module(f"mom_pipeline.bench.{self.module}")
        return getattr(module, f"{kind}_{self.name.replace('-', '_')}", None)


def _size(users: int, items: int, pairs: int, *more: Option) -> tuple[Option, ...]:
    return (
        Option("users", users, argument="n_users"),
        Option("items", items, argument="n_items"),
        Option("pairs", pairs, argument="n_pairs"),
        _COMPONENTS,
        *more,
    )


_COMPONENTS = Option("components", 100, argument="n_components")
_ITEMS = Option("items", 100_000, argument="n_items")
_SEED = Option("seed", 0)
_REPEATS = Option("repeats", 3, "The best of so many is taken.")
_PAPER_SIZES = ("tafeng", "million-song", "yandex")
_PAPER_METHODS = ("mom", "wrmf", "bpr", "plsi")

_ALL = (
    Bench(
        "paper",
        "paper",
        "The paper's Table 2",
        """Time MoM, WRMF, BPR and PLSI on simulated data of the paper's sizes, K = 100.

        Each runs alone in a process of its own. Seconds are those of the fit, up to the
        components or factors of every user; a method past its time budget is shown as –.
        """,
        (
            Option(
                "sizes",
                ",".join(_PAPER_SIZES),
                "Data sets of the paper whose sizes are taken, comma-separated.",
                choices=_PAPER_SIZES,
                several=True,
            ),
            Option(
                "methods",
                ",".join(_PAPER_METHODS),
                "Some of them, comma-separated.",
                choices=_PAPER_METHODS,
                several=True,
            ),
            Option(
                "threads",
                "both",
                "Cores of a method; the paper used one.",
                choices=("one", "all", "both"),
            ),
            Option(
                "time-budget",
                3600.0,
                "Seconds for a method, from the start of its process; 0: no limit.",
                least=0,
            ),
            Option("seed", 0, least=0),
        ),
    ),
    Bench(
        "engine",
        "engine",
        "Passes on workers",
        """Every pass on one and on two Dask workers of this machine, one core each.

        strong: one worker to two, the same users (2 is perfect). weak: one worker with half of
        the users to two with all (1 is perfect). Then, from these constants, a pass over 1 billion
        users, 10 million items and 20 billion pairs on 100 workers.
        """,
        _size(800_000, 200_000, 4_800_000),
    ),
    Bench(
        "growth",
        "engine",
        "Growth",
        """Fit parts of the users and all of them, streamed from shards on this machine.

        Each in a process of its own; with everybody's memberships, written to files.
        """,
        (
            Option("users", 10_000_000, "Of the largest run.", "n_users"),
            Option("items", 718_675, argument="n_items"),
            Option("pairs", 57_000_000, "Of the largest run.", "n_pairs"),
            _COMPONENTS,
            Option(
                "eighths",
                "1,2,4,8",
                "Which parts of the users are fitted, one after another.",
                choices=tuple("12345678"),
                several=True,
            ),
        ),
        plot="Also draw time and memory against the users to this PNG file.",
    ),
    Bench(
        "pipeline",
        "pipeline",
        "Dagster's share",
        """A day through Dagster against the same library calls without it, at Ta-Feng's size.

        The first day is computed in full; on the second 2 % of the users changed. Each side has
        a process and a data folder of its own; imports are not counted.
        """,
        _size(24_304, 21_533, 417_246, _SEED),
    ),
    Bench(
        "ingest",
        "warehouse",
        "Ingest",
        "Ingest of one CSV day against a bare CREATE TABLE AS SELECT FROM read_csv.",
        (Option("rows", 10_000_000, "Rows of the day."), _REPEATS),
    ),
    Bench(
        "matrix",
        "warehouse",
        "Matrix as of a day",
        "Matrix as of a day against the bare GROUP BY.",
        (Option("pairs", 5_700_000, "User-item pairs."), _REPEATS),
    ),
    Bench(
        "recovery",
        "accuracy",
        "Recovery",
        """Error of O against a known truth, as the number of users grows, per estimator.

        Only the unbiased estimator on repeat counts keeps the promise of an error that falls as
        1/sqrt(N), a slope of -0.5; the others level off at their bias.
        """,
        (Option("max-users", 320_000, "Largest number of users."), _SEED),
        plot="Also draw the error against the users, on log axes, to this PNG file.",
    ),
    Bench(
        "kernels",
        "kernels",
        "Kernels",
        "Tensor kernel against the machine's GEMM, whitening against one pair of sparse products.",
        _size(1_000_000, 718_675, 5_670_000),
    ),
    Bench(
        "switches",
        "switches",
        "Switches",
        """Both ways of every product that can be made in two, at sizes around the switch.

        A matrix or its factors, direct or iterated, single or double precision, dense or sparse:
        which is chosen, and how much longer that took than the better one.
        """,
        (Option("components", 50, argument="n_components"), _SEED, _REPEATS),
    ),
    Bench(
        "topn",
        "topn",
        "Exact lists for everybody",
        "Exact lists for all users: 2,000 checked by brute force, and `implicit`'s topk beside.",
        _size(
            1_000_000,
            718_675,
            5_669_541,
            Option("length", 100, "Items of a list."),
            Option("ranking", "components", choices=("components", "three-moment")),
        ),
    ),
    Bench(
        "daily",
        "daily",
        "A day",
        "An incremental day against a full rebuild, as the share of changed users grows.",
        _size(1_000_000, 718_675, 5_700_000),
    ),
    Bench(
        "metrics",
        "metrics",
        "Metrics",
        "Metrics of lists of 500 items: against ir_measures, and their time and memory.",
        (
            Option("users", 1_000_000, "Users for time and memory.", "n_users"),
            Option("peer-users", 3_000, "Users for the ratio."),
            Option("items", 718_675, argument="n_items"),
        ),
    ),
    Bench(
        "gowalla",
        "accuracy",
        "Gowalla",
        """Ranking quality on the Gowalla split in FOLDER (train.txt.gz, test.txt.gz).

        All settings are chosen by the fit on a held-out part of train; test is used once.
        """,
        (_COMPONENTS, _SEED),
        folder=True,
    ),
    Bench(
        "day-gate",
        "day_gate",
        "New days",
        """What the gate for new days keeps out, on a real log in FOLDER (as published).

        Every day is judged in order, by its figures and by the model of the days before; some are
        poisoned before, in each of the ways that the gate should tell.
        """,
        (
            Option("log", "30music", choices=("30music", "movietweetings", "online-retail")),
            Option("tried", 12, "Days that are poisoned."),
            Option("refit", 7, "Days from one fit to the next; 0: figures alone.", least=0),
            _COMPONENTS,
            _SEED,
        ),
        folder=True,
    ),
    Bench(
        "year",
        "year",
        "A long log",
        """A real log in FOLDER, day by day with the default settings: seconds and MB of each.

        Runs of some days, each a command in a process of its own; in the end `recommend`,
        `status` and `update` with all days stored.
        """,
        (
            Option("log", "30music", choices=("30music", "movietweetings", "online-retail")),
            Option("days", 366, "Days taken, from the first.", least=1),
            Option("run-days", 28, "Days of a run.", least=1),
        ),
        folder=True,
        plot="Also draw seconds and MB by day to this PNG file.",
    ),
    Bench(
        "query",
        "serving",
        "One user",
        """The list of a single user against that of `implicit`, one thread each, in turns.

        Popularity falls as rank^-skew; with a skew of 0 no item can be ruled out early.
        """,
        (_ITEMS, _COMPONENTS, Option("questions", 400)),
    ),
    Bench(
        "serve",
        "serving",
        "Service under load",
        "Load on a service of its own, with a promotion and a rollback in the middle.",
        (_ITEMS, _COMPONENTS, Option("requests", 3_000), Option("clients", 4)),
    ),
)
BENCHES = {bench.name: bench for bench in _ALL}
