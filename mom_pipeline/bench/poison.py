"""Bench of pushing an item: accounts that take it on the newest day, and whose lists it enters."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.bench.day_gate import read_log
from mom_pipeline.comparison.run import Progress, no_progress
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.ranking.score import weights_from
from mom_pipeline.core.types import Array, Csr

# Of all accounts those that push; people whose lists are looked at; days that "aged" ones go back.
_SHARE, _ASKED, _AGE, _N = 0.01, 2_000, 60, 20
_EVENTS = {"new": (1, 4, 20), "aged": (4, 20)}


def run_poison(
    folder: Path, log: str = "movietweetings", *, progress: Progress = no_progress
) -> dict[str, Any]:
    """Put a new item into a log by accounts of some events; "aged" had their others before.

    The weights of the ranking are those of the log as it is; the gate of days has no say here.
    """
    days, rng = read_log(folder, log), np.random.default_rng(0)
    names = ([getattr(e, n).astype(str) for e in days.values()] for n in ("users", "items"))
    users, items = (np.unique(np.concatenate(n), return_inverse=True)[1] for n in names)
    dates = np.repeat([day.toordinal() for day in days], [len(e) for e in days.values()])
    (people, pushed), newest = (users.max() + 1, items.max() + 1), dates.max()
    asked, (X, last) = np.sort(rng.permutation(people)[:_ASKED]), _rows(users, items, dates)
    learnt = MethodOfMoments(8).fit(X, last_days=last).diagnostics["ranking_weights"]
    accounts, rows = max(round(_SHARE * people), 1), list[dict[str, Any]]()
    for kind, n in ((kind, n) for kind, several in _EVENTS.items() for n in several):
        progress(f"{kind}, {n} events", len(rows) / 5)
        crowd = np.repeat(people + np.arange(accounts), n)
        taken, ago = rng.choice(items, len(crowd)), rng.integers(1, _AGE, len(crowd))
        when = newest - ago * (kind == "aged")
        taken[::n], when[::n] = pushed, newest
        X, last = _rows(*map(np.concatenate, ((users, crowd), (items, taken), (dates, when))))
        model = MethodOfMoments(8, ranking_weights=weights_from(learnt)).fit(X, last_days=last)
        lists, _ = model.recommend(X[asked], _N, last_days=last[asked])
        share = float((lists == pushed).any(axis=1).mean())
        rows.append({"accounts": kind, "events": n, "share_of_people": share})
    return {"log": log, "pushing_accounts": accounts, "people_asked": len(asked), "rows": rows}


def _rows(users: Array, items: Array, days: Array) -> tuple[Csr, Csr]:
    """Return counts and the days of last events, (N, D) each, by the numbers of each event."""
    shape, order = (users.max() + 1, items.max() + 1), np.argsort(-days, kind="stable")
    X = sparse.csr_array((np.ones(len(users)), (users, items)), shape=shape)
    _, first = np.unique(users[order] * np.int64(shape[1]) + items[order], return_index=True)
    at = order[first]
    return X, sparse.csr_array((days[at].astype(float), (users[at], items[at])), shape=shape)
