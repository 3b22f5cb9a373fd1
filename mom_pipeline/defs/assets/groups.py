"""Group `model`: the groups of people of each day, and what happened to them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from mom_pipeline.core.groups.support import support_curve
from mom_pipeline.core.types import Array
from mom_pipeline.defs import checks
from mom_pipeline.defs.daily import DayOutput, DayRun, daily_asset
from mom_pipeline.groups.changes import SETTLED, WINDOW, GroupChange, GroupDay, compare_days
from mom_pipeline.groups.names import keep_groups, kept_groups, named_groups
from mom_pipeline.groups.people import NOBODY, sizes, strongest_groups, supported
from mom_pipeline.pipeline.days import NotUsable
from mom_pipeline.warehouse.matrix import ids_by_position

# How many times as many people change how many groups they support.
_RENEWED = 1.25


@daily_asset("model", {"numpy"}, "user_personalization", from_yesterday=True)
def groups(run: DayRun, day: date) -> DayOutput:
    """The group of every person: the strongest component that is clear of chance.

    A group that vanished, split or doubled since the day before is said, with a p-value from
    permuted people, where it concerns more people than any of the last days. On the newest day
    names are given: a group that was named before keeps its name.
    """
    days = run.days
    known = np.diff(days.rows(day).X.indptr) > 0
    P, chance = days.arrays("user_personalization", day)["memberships"], _facts(run, day)["chance"]
    shown = supported(_agreement(run, day), P.shape[1], chance)
    group_of = strongest_groups(P, known, shown)
    people = sizes(group_of, P.shape[1])[shown]
    compared, past = _compared(run, day, P, known)
    alarms = compared.alarms(past) if compared else ()
    past = [*past, compared.largest][-WINDOW:] if compared else past
    names = _names(run, day, int(known.sum())) if day == days.computed()[-1] else []
    shares = people / max(people.sum(), 1)
    entropy = -float(shares[shares > 0] @ np.log(shares[shares > 0]))
    moved = {"moved": compared.moved} if compared else {}
    return DayOutput(
        f"{len(shown)} groups of {int(people.sum())} people",
        {
            "groups": len(shown),
            "unsupported": P.shape[1] - len(shown),
            "people": int(people.sum()),
            "largest_share": float(shares.max(initial=0)),
            "smallest_share": float(shares.min(initial=1)),
            "as_many_even_groups": float(np.exp(entropy)),
            **moved,
            **({"names": ", ".join(names[k] for k in shown.tolist())} if names else {}),
        },
        [
            checks.unchanged(f"no_group_{kind}", *_said(alarms, kind, names))
            for kind in ("vanished", "split", "doubled")
        ],
        arrays={"group_of": group_of},
        facts={"groups": len(shown), "people": people.tolist(), "largest": past},
    )


def _facts(run: DayRun, day: date) -> Mapping[str, Any]:
    return run.days.usable("decomposition", day).facts


def _agreement(run: DayRun, day: date) -> Sequence[float]:
    return tuple(_facts(run, day)["agreement"])


def _compared(
    run: DayRun, day: date, P: Array, known: Array
) -> tuple[GroupDay | None, Sequence[float]]:
    """The settled groups beside those of the day before, and how much changed until then."""
    days, before = run.days, run.days.day_before(day)
    try:
        past = days.usable("groups", before).facts["largest"]
        earlier = days.arrays("user_personalization", before)["memberships"]
        known_before = days.arrays("groups", before)["group_of"] != NOBODY
    except NotUsable:
        return None, []
    K = P.shape[1]
    if earlier.shape[1] != K or len(earlier) > len(P):
        return None, past
    agreement = np.minimum(_agreement(run, day), _agreement(run, before))
    settled = supported(agreement.tolist(), K, SETTLED)
    positions = np.full(K + 1, NOBODY)  # the last one is that of nobody
    positions[settled] = np.arange(len(settled))
    one = positions[strongest_groups(earlier, known_before, settled)]
    other = positions[strongest_groups(P, known, settled)]
    found, numbers = compare_days(one, other, len(settled)), [*settled.tolist(), NOBODY]
    changes = (replace(c, group=numbers[c.group], into=numbers[c.into]) for c in found.changes)
    return replace(found, changes=tuple(changes)), past  # as the model numbers them


def _names(run: DayRun, day: date, people: int) -> list[str]:
    """Name the groups of the newest day, and keep the names; how many there are as people grow."""
    folder = run.folder
    with folder.warehouse.reading() as connection:
        ids = [str(item or "") for item in ids_by_position(connection, "item")]
    model, kept = run.days.model(day, with_pairs=False), kept_groups(folder.settings)
    ids = ids[: model.n_items]
    known = np.where([item != "" for item in ids], model.popularity, 0.0)  # less what was erased
    named = named_groups(model.item_probs, known, ids, folder.catalogue, kept.names)
    users, support = folder.users(run.days.rows(day)), kept.support
    if support is None or not support.users[-1] <= people < _RENEWED * support.users[-1]:
        support = support_curve(users)
    keep_groups(folder.settings, named, support)
    return [each.name for each in named]


def _said(
    alarms: Sequence[GroupChange], kind: str, names: Sequence[str]
) -> tuple[list[str], float]:
    """The alarms of a kind in words, and the smallest p-value."""

    def called(k: int) -> str:
        return f"{k + 1} ({names[k]})" if names else str(k + 1)

    own = [change for change in alarms if change.kind == kind]
    words = [
        f"group {called(c.group)} {c.kind}: {c.before:,} people before, {c.after:,} now"
        + (f", and {c.concerned:,} in group {called(c.into)}" if c.into >= 0 else "")
        + f" (p = {c.p_value:.1g} among permuted people, more people than on any day before)"
        for c in own
    ]
    return words, min((c.p_value for c in own), default=1.0)
