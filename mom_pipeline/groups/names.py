"""Names of groups: two to four words of what sets each apart, which stay from day to day.

A name belongs to a profile, the items that set the group apart, and goes to the group of any
later model whose profile is most like it: whatever its number, after a rebuild and an erasure too.
What a person named stays so; `shop/groups.json` in the data folder holds both.
"""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
from scipy import sparse

from mom_pipeline.catalogue import Catalogue, Item, did_you_mean, tidy
from mom_pipeline.core.files import locked, write_text
from mom_pipeline.core.groups.support import SupportCurve
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.errors import MomError
from mom_pipeline.groups.apart import set_apart
from mom_pipeline.settings import Settings

NAMES_FILE = "groups.json"
MOST_LETTERS, _MOST_OF_ITEM = 60, 28
# Letters and marks of any script; of ASCII three at least.
_WORD = re.compile(r"[^\s\d_\u0021-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f]{2,}")
# Of a name: so many words, each of some share of what the group takes, so much above everybody,
# not by one item alone, and not far behind the first one.
_WORDS, _LEAST_SHARE, _LEAST_LIFT, _MOST_BY_ONE, _OF_FIRST = 3, 0.04, 1.25, 0.6, 0.3
# The share from which a group takes mostly that.
_MOSTLY = 0.5
_DASHES = ("–", "-", "—", "&", "and")
# Items of a profile; a profile that is less like (cosine) is that of another group.
_ITEMS, _LIKE = 50, 0.5


class BadGroupName(MomError):
    """A group cannot be called so, or none is."""


@dataclass(frozen=True)
class NamedGroup:
    """A name and what it is of."""

    name: str
    # what chose it: a person, words of the catalogue, or ids without names
    by: Literal["person", "words", "ids"]
    profile: Mapping[str, float]  # item -> how much it sets the group apart


@dataclass(frozen=True)
class KeptGroups:
    """What is kept of groups from day to day. support: how many the people support.

    names: the first `present` are of the newest model, the others what a person named before.
    """

    names: Sequence[NamedGroup] = ()
    support: SupportCurve | None = None
    present: int = 0


def kept_groups(settings: Settings) -> KeptGroups:
    """The names that were given before, and how many groups the people supported."""
    path = settings.shop_dir / NAMES_FILE
    try:
        kept = json.loads(path.read_bytes())
        support = SupportCurve(**kept["support"]) if kept["support"] else None
        names = [NamedGroup(**each) for each in kept["names"]]
        return KeptGroups(names, support, kept.get("present", len(names)))
    except FileNotFoundError:
        return KeptGroups()
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise MomError(
            f"{path} cannot be read ({error!r}); put it back from a copy, or remove it and rename "
            "groups again"
        ) from error


def keep_groups(
    settings: Settings, names: Sequence[NamedGroup], support: SupportCurve | None = None
) -> None:
    """Write the names of the groups of a model; what a person named and is not there stays, too."""
    with locked(settings.shop_dir):
        kept = kept_groups(settings)
        own = [each for each in kept.names if each.by == "person"]
        others = [e for e in own if not any(_cosine(e.profile, n.profile) >= _LIKE for n in names)]
        _write(settings, KeptGroups([*names, *others], support or kept.support, len(names)))


def _write(settings: Settings, kept: KeptGroups) -> None:
    text = json.dumps(asdict(kept), ensure_ascii=False, indent=0)
    write_text(settings.shop_dir / NAMES_FILE, text + "\n")


def outdate_groups(settings: Settings) -> Mapping[str, int]:
    """Count all that is kept as of earlier models: the names go to groups of the next one.

    A file that cannot be read is removed.
    """
    path = settings.shop_dir / NAMES_FILE
    with locked(settings.shop_dir):
        try:
            names = kept_groups(settings).names
        except MomError:
            path.unlink()
        else:
            if names:
                _write(settings, KeptGroups(names))
    return {}


def forget_absent_groups(settings: Settings) -> Mapping[str, int]:
    """Remove names of groups, with their items, that the newest model has not; how many."""
    with locked(settings.shop_dir):
        kept = kept_groups(settings)
        gone = kept.names[kept.present :]
        if gone:
            _write(settings, replace(kept, names=kept.names[: kept.present]))
    return {"names of groups that are no more": len(gone)}


def named_groups(
    O: Array,
    popularity: Array,
    ids: Sequence[str],
    catalogue: Catalogue,
    kept: Sequence[NamedGroup] = (),
) -> list[NamedGroup]:
    """Name the groups of a model: as before where one was like it, else by what sets it apart.

    O: (D, K).  popularity: (D,), 0 for an item that lost its id.
    """
    apart = np.maximum(set_apart(O, popularity), 0)
    best = np.argsort(-apart, axis=0, kind="stable")[:_ITEMS].T.tolist()
    profiles = [
        {ids[y]: round(float(apart[y, k]), 7) for y in items if apart[y, k] > 0}
        for k, items in enumerate(best)
    ]
    named = [any(map(catalogue.name, profile)) for profile in profiles]
    stays = {
        k: replace(each, profile=profiles[k])
        for k, each in _matched(profiles, kept).items()
        if each.by != "ids" or not named[k]
    }
    if len(stays) == len(profiles):
        return [stays[k] for k in range(len(profiles))]
    typical = [catalogue.name(ids[items[0]]) or ids[items[0]] for items in best]
    taken = {each.name.casefold() for each in (*kept, *stays.values())}
    words = _words_apart(O, popularity, ids, catalogue)
    for k in range(len(profiles)):
        if k not in stays:
            name = _free_name(words[k], typical[k], k, taken)
            taken.add(name.casefold())
            stays[k] = NamedGroup(name, "words" if named[k] else "ids", profiles[k])
    return [stays[k] for k in range(len(profiles))]


def renamed(names: Sequence[NamedGroup], old: str, new: str) -> list[NamedGroup]:
    """The same with another name of one group, from now on that of a person."""
    position, name = find_group([each.name for each in names], old), tidy(new)
    if not any(map(str.isalpha, name)) or len(name) > MOST_LETTERS:
        raise BadGroupName(f"a name has letters, {MOST_LETTERS} at most; found {name[:80]!r}")
    others = [each.name.casefold() for at, each in enumerate(names) if at != position]
    if name.casefold() in others:
        raise BadGroupName(f"another group is called {name!r}; choose a name of its own")
    made = NamedGroup(name, "person", names[position].profile)
    return [made if at == position else each for at, each in enumerate(names)]


def find_group(names: Sequence[str], wanted: str) -> int:
    """The position of a group by its name, in any case, or by its number."""
    folded = [name.casefold() for name in names]
    if (name := tidy(wanted).casefold()) in folded:
        return folded.index(name)
    if wanted.isascii() and wanted.isdigit() and 1 <= int(wanted[:6]) <= len(names):
        return int(wanted[:6]) - 1
    near = did_you_mean(wanted, names) or _with_part(name, names)
    near = near or "; `mom-pipeline groups` lists them"
    raise BadGroupName(f"no group is called {wanted[:80]!r}{near}")


def _with_part(part: str, names: Sequence[str]) -> str:
    found = [name for name in names if part and part in name.casefold()][:3]
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def _matched(
    profiles: Sequence[Mapping[str, float]], kept: Sequence[NamedGroup]
) -> dict[int, NamedGroup]:
    """The kept name of each group that has one: the most like pairs first, each once."""
    pairs = [
        (_cosine(profile, each.profile), k, at)
        for k, profile in enumerate(profiles)
        for at, each in enumerate(kept)
    ]
    found: dict[int, NamedGroup] = {}
    used: set[int] = set()
    for like, k, at in sorted(pairs, key=lambda pair: -pair[0]):
        if like >= _LIKE and k not in found and at not in used:
            found[k] = kept[at]
            used.add(at)
    return found


def _cosine(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The cosine of two profiles."""
    lengths = math.hypot(*one.values()) * math.hypot(*other.values())
    return sum(one[y] * other[y] for y in one.keys() & other.keys()) / lengths if lengths else 0.0


def _short(name: str, n: int) -> str:
    """The beginning of an item's name, in n words without what stands in brackets."""
    words = re.sub(r"\s*[(\[].*?[)\]]", "", name).split() or name.split()
    if len(words) > n:
        words = words[: n + 1] if n < 3 else words[:n]
        long = [word for word in words if len(word) > 3]
        words = (long if n < 3 and long else words)[:n]
    while len(words) > 1 and (words[-1] in _DASHES or re.fullmatch("[a-z]{1,3}", words[-1])):
        words.pop()
    return " ".join(words)[:_MOST_OF_ITEM].rstrip(" ,;:")


def _free_name(words: Sequence[str], item: str, k: int, taken: Collection[str]) -> str:
    """The first of some names that no other group has."""
    item, tried = tidy(item), [tidy(" · ".join(words))] if words else []
    kind = words[0].removeprefix("Mostly ").removeprefix("Much ") if words else ""
    like = f"{kind} like {_short(item, 2 if kind else 3)}".strip()
    tried += [like, f"{like} {k + 1}", f"Group {k + 1}"]
    return next(name for name in tried if name.casefold() not in taken)


def _words_apart(
    O: Array, popularity: Array, ids: Sequence[str], catalogue: Catalogue
) -> list[list[str]]:
    """Groups and words of the catalogue that set each component apart."""
    words, F = features(ids, catalogue)
    everybody, names = F @ popularity.astype(np.float64), []
    for p in O.T.astype(np.float64):
        shares = F @ p
        by_one = np.maximum.reduceat(p[F.indices], F.indptr[:-1]) if F.nnz else shares
        told = set_apart(shares[:, None], everybody)[:, 0]
        told[(shares < _LEAST_SHARE) | (shares < _LEAST_LIFT * everybody)] = 0
        told[by_one > _MOST_BY_ONE * shares] = 0
        least = max(_OF_FIRST * told.max(initial=0), 1e-12)
        best = [words[w] for w in np.argsort(-told, kind="stable")[:_WORDS] if told[w] >= least]
        if len(best) == 1 and " " not in best[0]:
            half = shares[words.index(best[0])] >= _MOSTLY
            best = [f"{'Mostly' if half else 'Much'} {best[0]}"]
        names.append(best)
    return names


def features(ids: Sequence[str], catalogue: Catalogue) -> tuple[list[str], Csr]:
    """Groups, and words of several names, with the items that have them, (words, D)."""
    shown: dict[str, str] = {}
    of_items: dict[str, set[int]] = {}
    for position, item in enumerate(ids):
        for word in words_of(catalogue.entry(item)):
            shown.setdefault(word.casefold(), word)
            of_items.setdefault(word.casefold(), set()).add(position)
    kept = [word for word, items in of_items.items() if len(items) > 1]
    columns = [y for word in kept for y in sorted(of_items[word])]
    indptr = np.append(0, np.cumsum([len(of_items[word]) for word in kept], dtype=np.int64))
    entries = np.ones(len(columns)), np.array(columns, dtype=np.int64), indptr
    return [shown[word] for word in kept], sparse.csr_array(entries, shape=(len(kept), len(ids)))


def words_of(entry: Item) -> Iterator[str]:
    """Groups of an item, and words of its name."""
    yield from entry.groups
    for word in _WORD.findall(entry.name):
        if len(word) > 2 or not word.isascii():
            yield word[0].upper() + word[1:]
