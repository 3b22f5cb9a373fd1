"""Segments of people by the columns of `users.csv` in the data folder, and the model of each.

    user,country,store,channel

Sums of every value of a column are kept beside the arrays of a day: any union of values, and
everybody without some, is a model at once. They are additive over people, not over one person's
days: who has moved is where the file says.
"""

import csv
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from math import isqrt
from pathlib import Path

import numpy as np

from mom_pipeline.catalogue import InvalidCatalogue, did_you_mean, lines_of, tidy
from mom_pipeline.core.algorithm.decompose import decompose
from mom_pipeline.core.algorithm.decomposition import match_columns
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.files import replacing, sha256_of, write_text
from mom_pipeline.core.groups.segments import Likeness, SegmentSums, compare_segments
from mom_pipeline.core.moments.anchored import Anchor
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.persistence import write_npz
from mom_pipeline.core.types import Array, Csr, Float64
from mom_pipeline.pipeline.days import Days
from mom_pipeline.settings import Settings

USERS_FILE = "users.csv"
# Fewer people say nothing of a group, and their sums too much of them.
LEAST_PEOPLE = 20
_SUMS = "segment_sums"


class UnknownSegment(MomError):
    """There is no such column or value, or too few people have it."""


@dataclass(frozen=True)
class UserColumns:
    """What `users.csv` says of people. columns: by name, the value of each id that has one."""

    columns: Mapping[str, Mapping[str, str]]

    @classmethod
    def open(cls, data_dir: Path) -> "UserColumns":
        """Read the file; the first line of a person counts. InvalidCatalogue says what is wrong."""
        path = data_dir / USERS_FILE
        lines = lines_of(path)
        try:
            header = [] if lines is None else [name for name in lines.fieldnames or [] if name]
            if lines is not None and ("user" not in header or len(header) == 1):
                raise InvalidCatalogue(
                    f"expected the columns user,country,… of which user must be there and one "
                    f"more, found {header[:10]}; correct the first line"
                )
            columns: dict[str, dict[str, str]] = {name: {} for name in header if name != "user"}
            for line in lines or ():
                for name, values in columns.items():
                    if value := tidy(line[name]):
                        values.setdefault(line["user"], value)
            return cls(columns)
        except (csv.Error, InvalidCatalogue) as error:
            raise InvalidCatalogue(f"{path}: {error}") from error

    def column(self, name: str) -> Mapping[str, str]:
        if name not in self.columns:
            known = ", ".join(self.columns) or f"none: write {USERS_FILE} with user,country,…"
            raise UnknownSegment(f"there is no column {name!r} of people; there are {known}")
        return self.columns[name]

    def counts(self, user_ids: Collection[str]) -> list[tuple[str, int]]:
        """Return every COLUMN=VALUE that some people have, and how many, the most first."""
        return [
            (f"{column}={value}", people)
            for column, own in self.columns.items()
            for value, people in Counter(own[u] for u in user_ids if u in own).most_common()
        ]

    def labels(self, column: str, user_ids: Sequence[str]) -> tuple[Array, list[str]]:
        """Return the value of each person as a number, (N,), -1 for none, and the values."""
        own = self.column(column)
        values = sorted({own[user] for user in user_ids if user in own})
        number = {value: i for i, value in enumerate(values)}
        found = [number.get(own.get(user, ""), -1) for user in user_ids]
        return np.array(found, dtype=np.int64), values


@dataclass(frozen=True)
class Selection:
    """`column=value`, several of one column, some of them left out."""

    column: str
    chosen: tuple[str, ...]
    without: tuple[str, ...] = ()

    @classmethod
    def parse(cls, chosen: Collection[str], without: Collection[str] = ()) -> "Selection":
        """Read texts such as country=Germany; all are of one column, whose values share nobody."""
        pairs = [text.partition("=") for text in (*chosen, *without)]
        if wrong := [column for column, equals, _ in pairs if not equals]:
            raise UnknownSegment(f"a segment is COLUMN=VALUE, found {wrong[0]!r}")
        columns = {column for column, _, _ in pairs}
        if len(columns) != 1:
            raise UnknownSegment(
                f"segments of one column can be added and taken away, found {sorted(columns)}: "
                "people are in several, and their sums would count twice"
            )
        values = [tidy(value) for _, _, value in pairs]
        return cls(columns.pop(), tuple(values[: len(chosen)]), tuple(values[len(chosen) :]))

    def positions(self, values: Sequence[str]) -> tuple[Array, Array]:
        """Return the numbers of the chosen values, and of those left out."""
        number = {value: i for i, value in enumerate(values)}
        for value in (*self.chosen, *self.without):
            if value not in number:
                raise UnknownSegment(
                    f"nobody has {self.column}={value!r}{did_you_mean(value, values)}"
                )
        one, other = (
            np.array(sorted({number[v] for v in own}), dtype=np.int64)
            for own in (self.chosen, self.without)
        )
        return np.setdiff1d(one, other), other

    @property
    def words(self) -> str:
        kept = " or ".join(f"{self.column}={value}" for value in self.chosen) or "everybody"
        left = ", ".join(f"{self.column}={value}" for value in self.without)
        return f"{kept} without {left}" if left else kept


@dataclass(frozen=True)
class SegmentModel:
    """The groups of a segment. people: how many.  O: item_probs, (D, K).  pi: weights, (K,).

    groups: (K,) the group of everybody that each is nearest to.
    """

    words: str
    people: int
    item_probs: Array
    weights: Float64
    groups: Array

    def typical(self, n: int) -> list[tuple[int, float, list[int]]]:
        """Return the group of everybody, the share and n items of each, the largest first."""
        items = np.argsort(-self.item_probs, axis=0, kind="stable")[:n]
        return [
            (int(self.groups[k]), float(self.weights[k]), items[:, k].tolist())
            for k in np.argsort(-self.weights, kind="stable").tolist()
        ]


class SegmentedDay:
    """A day whose people are told apart by a column. user_ids: (N,), those of its rows."""

    def __init__(self, settings: Settings, day: date, user_ids: Sequence[str]) -> None:
        self.days, self.day, self._user_ids = Days(settings), day, user_ids
        self.columns = UserColumns.open(settings.data_dir)

    @cached_property
    def _X(self) -> Csr:
        return self.days.rows(self.day).X

    def model(self, selection: Selection) -> SegmentModel:
        """The model of a segment, from sums alone once those of its column are there."""
        labels, values = self.columns.labels(selection.column, self._user_ids)
        one, other = selection.positions(values)
        anchor, everyone = self.days.moments(self.day)
        start = self.days.arrays("decomposition", self.day)["anchor_components"]
        anchor = replace(anchor, components=start)
        segments = self._sums(selection.column, labels, values, anchor)
        if len(one):
            sums = segments.of(one)
        else:
            left_out = segments.of(other)
            sums = replace(everyone, half=None) - left_out
        n = sums.first.n_users
        if n < LEAST_PEOPLE:
            raise UnknownSegment(
                f"{selection.words} has {n} people with a history, at least {LEAST_PEOPLE} are "
                "needed; take several values together"
            )
        settings = self.days.decompose_settings(self.day)
        K = min(settings.n_components, max(isqrt(n), 1))
        found = decompose(anchor, sums, replace(settings, n_components=K))
        ours, theirs = match_columns(found.in_span, start)
        groups = np.asarray(theirs[np.argsort(ours)])
        return SegmentModel(selection.words, n, found.item_probs, found.weights, groups)

    def compare(self, one: Selection, other: Selection) -> Likeness:
        """Tell whether two segments are alike; see `compare_segments`."""
        P = self.days.arrays("user_personalization", self.day)["memberships"]
        known = np.diff(self._X.indptr) > 0
        sides = []
        for selection in (one, other):
            labels, values = self.columns.labels(selection.column, self._user_ids)
            chosen, without = selection.positions(values)
            within = np.isin(labels, chosen) if len(chosen) else ~np.isin(labels, without)
            sides.append(np.flatnonzero(within & known))
        a, b = sides
        if not len(a) or not len(b) or len(np.intersect1d(a, b)):
            raise UnknownSegment(
                f"{one.words} has {len(a)} people and {other.words} {len(b)}, "
                f"{len(np.intersect1d(a, b))} of them in both; compare segments that share nobody"
            )
        return compare_segments(P, a, b, np.random.default_rng(0))

    def _sums(
        self, column: str, labels: Array, values: Sequence[str], anchor: Anchor
    ) -> SegmentSums:
        """The sums of all values, from the file of the day, which is written at first."""
        made = self.days.usable("m2_statistics", self.day).version
        content = f"{made}\n{column}\n{values}\n".encode() + labels.tobytes()
        path = self.days.store.root / _SUMS / f"{self.day}-{sha256_of(content)[:24]}.npz"
        try:
            with np.load(path, allow_pickle=False) as file:
                return SegmentSums.from_arrays({name: file[name] for name in file.files})
        except (OSError, ValueError, KeyError, EOFError):
            pass
        sums = SegmentSums.from_users(UsersInMemory(self._X), labels, len(values), anchor)
        with replacing(path) as temporary, temporary.open("wb") as out:
            write_npz(out, sums.as_arrays(), deflated=False)
        return sums


def erase_lines_of_users(data_dir: Path, user_ids: Collection[str]) -> Mapping[str, int]:
    """Remove people from `users.csv`; the file is replaced as a whole."""
    lines = lines_of(data_dir / USERS_FILE)
    header = [] if lines is None else list(lines.fieldnames or [])
    if lines is None or "user" not in header:
        return {}
    erased, every = set(user_ids), list(lines)
    kept = [line for line in every if line["user"] not in erased]
    if len(kept) < len(every):
        out = io.StringIO()
        writer = csv.DictWriter(out, header, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(kept)
        write_text(data_dir / USERS_FILE, out.getvalue())
    return {f"lines of {USERS_FILE}": len(every) - len(kept)}
