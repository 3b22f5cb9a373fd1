"""The groups of one model as answers: for command, HTTP, explorer, report and exports."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property

import numpy as np

from mom_pipeline.core.evaluation.stability import MIN_AGREEMENT
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.sums import users_per_item
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.types import Array, Csr, Float64
from mom_pipeline.groups.apart import bubbles, expected_shares, set_apart
from mom_pipeline.groups.names import (
    BadGroupName,
    NamedGroup,
    features,
    find_group,
    named_groups,
    words_of,
)
from mom_pipeline.groups.people import (
    blocks_of,
    groups_of,
    people_by_week,
    share_interval,
    sizes,
    supported,
)
from mom_pipeline.serving import answers
from mom_pipeline.serving.rules import Rules
from mom_pipeline.serving.served_model import ServedModel

# Items that stand for a group; people whose groups, and whose lists, are counted.
_EXAMPLES, _COUNTED, _LISTED, _LIST = 8, 50_000, 300, 20
# A smaller share of a group in a person is none.
_LEAST_SHARE = 0.01
# The change of a share is that of four weeks, or of one at least.
_LONGEST, _SHORTEST = 28, 7


class KnownGroups:
    """The groups of one model; what takes long is computed when it is asked for first.

    model: of `served`, under the rules of its lists.
    """

    def __init__(self, served: ServedModel, rules: Rules, model: FittedModel | None = None) -> None:
        self.served, self.rules, self._model = served, rules, model or served.model
        self.K, figures = len(served.model.weights), served.figures
        fit = figures.days[-1] if figures and figures.days else None
        agreement = fit.agreement if fit else ()
        self._agreement = agreement if len(agreement) == self.K else None
        self._clear = max(fit.chance if fit else 0.0, MIN_AGREEMENT)
        support = rules.kept.support
        most = support.limit if support else None
        self.shown = supported(agreement, self.K, self._clear, most)

    @cached_property
    def names(self) -> list[NamedGroup]:
        """The name of every group, and what it is of, (K,)."""
        ids = [str(item) for item in self.served.item_ids]
        O = self.served.model.item_probs
        return named_groups(O, self._known, ids, self.rules.catalogue, self.rules.kept.names)

    def position(self, name: str) -> int:
        """The group of a name or a number; UnknownGroup when there is none that is supported."""
        try:
            k = find_group([each.name for each in self.names], name)
        except BadGroupName as error:
            raise answers.UnknownGroup(str(error)) from None
        if k in self.shown:
            return k
        raise answers.UnknownGroup(
            f"the data does not support the group {answers.shown(name)}: two halves of the people, "
            f"each looked at alone, do not both have it. {len(self.shown)} of {self.K} are shown"
        )

    @cached_property
    def all(self) -> answers.Groups:
        """Every group, the largest first."""
        people, (X, _), (days, _) = self.served.histories.shape[0], self.counted, self._by_week
        support = self.rules.kept.support
        by_size = self.shown[np.argsort(-self.group_sizes[self.shown], kind="stable")].tolist()
        return answers.Groups(
            model=self.served.manifest.version,
            people=people,
            unsupported=self.K - len(self.shown),
            supported=support.groups[-1] if support else None,
            supported_by_twice=support.of_twice if support else None,
            from_sample=X.shape[0] if X.shape[0] < people else None,
            days=tuple(day.isoformat() for day in days),
            groups=tuple(self._groups[k] for k in by_size),
        )

    def page(self, name: str, *, against: str = "", at_least: float = 0.5) -> answers.GroupPage:
        """One group, beside everybody or another group."""
        k, model = self.position(name), self.served.model
        other = self._known if not against else model.item_probs[:, self.position(against)]
        apart = set_apart(model.item_probs, other)[:, k]
        back = set_apart(other[:, None], model.item_probs[:, k])[:, 0] if against else np.zeros(1)
        days, counts = self._by_week
        low, high = share_interval(counts[:, k], counts.sum(axis=1))
        return answers.GroupPage(
            **dict(self._groups[k]),
            model=self.served.manifest.version,
            days=tuple(day.isoformat() for day in days),
            by_day_interval=tuple(zip(low.tolist(), high.tolist(), strict=True)),
            next=self._next(k),
            at_least=at_least,
            members=sum(len(users) for users, _ in self.belonging(k, at_least)),
            against=self.names[self.position(against)].name if against else "",
            apart=self._typical(apart, k),
            the_other_takes=self._best(back),
        )

    def members(self, n: int | None = None) -> Iterator[dict[str, Array]]:
        """Everybody's n strongest groups, block by block: columns, a row for each of a user."""
        names = np.array([each.name for each in self.names], dtype=object)
        for users, P in self._memberships():
            order = np.argsort(-P, axis=1, kind="stable")[:, :n]
            shares = np.take_along_axis(P, order, axis=1)
            rows, ranks = np.nonzero(shares >= _LEAST_SHARE)
            of = order[rows, ranks]
            yield {
                "user_id": self.served.user_ids[users[rows]],
                "rank": ranks + 1,
                "number": of + 1,
                "name": names[of],
                "share": shares[rows, ranks].astype(np.float64),
            }

    def belonging(self, k: int, at_least: float) -> Iterator[tuple[Array, Float64]]:
        """Ids of the people of a group with P[group | person] of at least so much, and P."""
        for users, P in self._memberships():
            own = P[:, k] >= at_least
            yield self.served.user_ids[users[own]], P[own, k].astype(np.float64)

    def alike(self, ids: Iterable[str], at_least: float) -> Iterator[tuple[Array, Float64]]:
        """People whose groups are like those of some people, who are not among them.

        Likeness: sum_k sqrt(P[k | person] mean P[k | those]), 1 for the same mixture.
        """
        positions = self.served.user_positions
        lengths = np.diff(self.served.histories.indptr)
        some = [positions[user] for user in dict.fromkeys(ids) if user in positions]
        some = [u for u in some if lengths[u]]
        if not some:
            raise answers.UnknownUser("the model knows none of these people; an id in each line")
        those = blocks_of(self.served.model, self.served.histories[some], self.shown)
        wanted = np.concatenate([P for _, P in those]).mean(axis=0)
        for users, P in self._memberships():
            like = np.sqrt(P * wanted).sum(axis=1).astype(np.float64)
            own = (like >= at_least) & ~np.isin(users, some)
            yield self.served.user_ids[users[own]], np.minimum(like[own], 1.0)

    def named(self, position: int) -> answers.NamedItem:
        """An item with its name and its picture."""
        entry = self.rules.catalogue.entry(str(self.served.item_ids[position]))
        return answers.NamedItem(item=entry.item, name=entry.name, image=entry.image)

    def expected(self, item: str) -> Float64 | None:
        """P[group | taker] of an item of the catalogue alone, (K,); None where no word is known."""
        of_words, usual = self._takers_of_words, self.group_sizes / max(self.group_sizes.sum(), 1)
        words = {word.casefold() for word in words_of(self.rules.catalogue.entry(item))}
        known = [of_words[word] for word in sorted(words & of_words.keys())]
        return expected_shares(np.stack(known), usual) if known else None

    @cached_property
    def _takers_of_words(self) -> dict[str, Array]:
        """How many people of each group took what has a word, (K,) by word."""
        (X, _), D = self.counted, len(self.served.item_ids)
        owners = self.group_of[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))]
        places = X.indices.astype(np.int64) * self.K + owners
        takers = np.bincount(places, minlength=D * self.K).reshape(D, self.K)
        words, F = features([str(item) for item in self.served.item_ids], self.rules.catalogue)
        return {word.casefold(): row for word, row in zip(words, F @ takers, strict=True)}

    @cached_property
    def counted(self) -> tuple[Csr, Csr]:
        """Histories and days of everybody, or of as many people as are counted."""
        X, days = self.served.histories, self.served.last_days
        step = max(1, -(-X.shape[0] // _COUNTED))
        return (X, days) if step == 1 else (X[::step], days[::step])

    @cached_property
    def group_of(self) -> Array:
        """The group of everybody who is counted."""
        return groups_of(self.served.model, self.counted[0], self.shown)

    @cached_property
    def _known(self) -> Float64:
        """The popularity of the items that nobody's erasure took away, (D,)."""
        named = np.array([bool(item) for item in self.served.item_ids], dtype=bool)
        return np.where(named, self.served.model.popularity, 0.0)

    @cached_property
    def group_sizes(self) -> Array:
        return sizes(self.group_of, self.K)

    @cached_property
    def _by_week(self) -> tuple[Sequence[date], Array]:
        return people_by_week(self.counted[1], self.group_of, self.K)

    @cached_property
    def _groups(self) -> list[answers.Group]:
        """Every group, by number."""
        (_, counts), served = self._by_week, self.served
        O, agreement = served.model.item_probs, self._agreement
        people = max(int(self.group_sizes.sum()), 1)
        share, (low, high) = self.group_sizes / people, share_interval(self.group_sizes, people)
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        change, error = _change(counts, shares)
        told, places = set_apart(O, self._known), np.zeros((self.K, 3))
        places[self.shown] = bubbles(O[:, self.shown], share[self.shown])
        return [
            answers.Group(
                number=k + 1,
                name=self.names[k].name,
                people=int(self.group_sizes[k]),
                size=float(share[k]),
                size_interval=(float(low[k]), float(high[k])),
                agreement=None if agreement is None else agreement[k],
                uncertain=agreement is not None and agreement[k] < self._clear,
                items=self._typical(told[:, k], k),
                by_day=tuple(shares[:, k].tolist()),
                change=None if change is None else float(change[k]),
                change_error=None if error is None else float(error[k]),
                place=tuple(places[k].tolist()),
            )
            for k in range(self.K)
        ]

    def largest(self, values: Array, n: int = _EXAMPLES) -> list[int]:
        """The positions of the largest values above 0 of items that have an id."""
        found, most = top_n(np.where(self._known > 0, values, 0)[None], n)
        return found[0][(found[0] >= 0) & (most[0] > 0)].tolist()

    def _best(self, values: Array) -> tuple[answers.NamedItem, ...]:
        return tuple(map(self.named, self.largest(values)))

    def _typical(self, values: Array, k: int) -> tuple[answers.TypicalItem, ...]:
        """The items of the largest values, and the share of a group's people who took each."""
        best, people = self.largest(values), np.flatnonzero(self.group_of == k)
        takers = users_per_item(self.counted[0][people][:, best])
        low, high = share_interval(takers, len(people))
        shares = (each.tolist() for each in (takers / max(len(people), 1), low, high))
        return tuple(
            answers.TypicalItem(**dict(self.named(y)), taken=share, taken_interval=(least, most))
            for y, share, least, most in zip(best, *shares, strict=True)
        )

    def _next(self, k: int) -> tuple[answers.NextItem, ...]:
        """What the lists of a group's people hold more often than those of everybody."""
        share, usual = self._listed(np.flatnonzero(self.group_of == k)), self._usually_listed
        return tuple(
            answers.NextItem(**dict(self.named(y)), share=float(share[y]), usual=float(usual[y]))
            for y in self.largest(set_apart(share[:, None], usual)[:, 0])
        )

    @cached_property
    def _usually_listed(self) -> Float64:
        return self._listed(np.flatnonzero(self.group_of >= 0))

    def _listed(self, people: Array) -> Float64:
        """The share of the lists of some of these people that hold an item, (D,)."""
        some = people[:: max(1, -(-len(people) // _LISTED))]
        X, days = (rows[some] for rows in self.counted)
        best = self._model.best(
            X, _LIST, exclude_seen=self.rules.exclude_seen, last_days=days
        ).items
        counts = np.bincount(best[best >= 0], minlength=self._model.n_items)
        return counts / max(len(some), 1)

    def _memberships(self) -> Iterator[tuple[Array, Array]]:
        return blocks_of(self.served.model, self.served.histories, self.shown)


def _change(counts: Array, shares: Float64) -> tuple[Float64, Float64] | tuple[None, None]:
    """The change of each share since four weeks ago, and the half of its 95 % interval."""
    back = min(_LONGEST, len(counts) - 1)
    if back < _SHORTEST or not (counts[[-1, -1 - back]].sum(axis=1)).all():
        return None, None
    one, other = shares[-1 - back], shares[-1]
    before, now = counts[-1 - back].sum(), counts[-1].sum()
    error = np.sqrt(one * (1 - one) / before + other * (1 - other) / now)
    return other - one, 1.96 * error
