"""The rules of lists: settings, `items.csv`, and what a shop says at once in `shop/items.json`."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.catalogue import ITEMS_FILE, Catalogue
from mom_pipeline.core.files import locked, write_text
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.ranking.list_rules import ListRules
from mom_pipeline.core.types import Csr
from mom_pipeline.errors import MomError
from mom_pipeline.groups.names import NAMES_FILE, KeptGroups, kept_groups
from mom_pipeline.serving.served_model import ServedModel
from mom_pipeline.settings import Settings

LEAST_BOOST, MOST_BOOST = 0.1, 10.0
_FILE = "items.json"


class DamagedShopItems(MomError):
    """`shop/items.json` cannot be read."""


@dataclass(frozen=True)
class ShopItem:
    """hidden: no list holds it.  boost: by how much it is likelier."""

    hidden: bool = False
    boost: float = 1.0


def shop_items(settings: Settings) -> dict[str, ShopItem]:
    """Every item that something was said about."""
    path = settings.shop_dir / _FILE
    try:
        return {item: ShopItem(**said) for item, said in json.loads(path.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedShopItems(
            f"{path} cannot be read ({error!r}); put it back from a copy, or remove it and say "
            "again what is hidden"
        ) from error


def say_of_item(settings: Settings, item: str, said: Mapping[str, bool | float]) -> ShopItem:
    """Change what is said of an item, on the disk when this returns."""
    with locked(settings.shop_dir):
        items = shop_items(settings)
        items[item] = replace(items.get(item, ShopItem()), **said)  # type: ignore[arg-type]
        values = {name: asdict(each) for name, each in items.items()}
        write_text(settings.shop_dir / _FILE, json.dumps(values, indent=1) + "\n")
    return items[item]


def rules_stamp(settings: Settings) -> tuple[object, ...]:
    """What changes when `items.csv`, or what was said of items or groups, does."""
    told = (settings.shop_dir / name for name in (_FILE, NAMES_FILE))
    return tuple(map(_stamp, (settings.data_dir / ITEMS_FILE, *told)))


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


@dataclass(frozen=True)
class Rules:
    """What holds for every list of a model.

    exclude_seen: leave out what the user has had already.  left_out: ids that no list may hold.
    boosts: by how much items are likelier.  max_per_group, diversity: see `ListRules`.
    kept: names of groups, as they were given before.  said_of: items that the shop knows.
    """

    exclude_seen: bool = True
    catalogue: Catalogue = field(default_factory=Catalogue)
    kept: KeptGroups = field(default_factory=KeptGroups)
    left_out: Collection[str] = ()
    boosts: Mapping[str, float] = field(default_factory=dict)
    said_of: Collection[str] = ()
    max_per_group: int = 0
    diversity: float = 0.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """What settings, items.csv and the shop say."""
        serving, catalogue = settings.serving, Catalogue.open(settings.data_dir)
        shop = shop_items(settings)
        hidden = (item for item, said in shop.items() if said.hidden)
        return cls(
            exclude_seen=serving.exclude_seen,
            catalogue=catalogue,
            kept=kept_groups(settings),
            left_out=catalogue.left_out(serving.exclude_items, serving.exclude_groups).union(
                hidden
            ),
            boosts={item: said.boost for item, said in shop.items() if said.boost != 1},
            said_of=shop.keys(),
            max_per_group=serving.max_per_group,
            diversity=serving.diversity,
        )

    def applied_to(self, served: ServedModel) -> FittedModel:
        """The model of a version under these rules."""
        positions, D = served.item_positions, served.model.n_items
        hidden, boosts, groups = np.zeros(D, dtype=bool), np.ones(D), None
        hidden[[positions[item] for item in self.left_out if item in positions]] = True
        for item, boost in self.boosts.items():
            if item in positions:
                boosts[positions[item]] = boost
        if self.max_per_group:
            groups = group_rows(catalogue_groups(served, self.catalogue), D)
        own = hidden if hidden.any() else None, boosts if (boosts != 1).any() else None
        rules = ListRules(*own, groups, self.max_per_group, self.diversity)
        return replace(served.model, list_rules=rules)


def catalogue_groups(served: ServedModel, catalogue: Catalogue) -> dict[str, list[int]]:
    """Group of the catalogue -> its items among those of the model."""
    groups: dict[str, list[int]] = {}
    for position, item in enumerate(served.item_ids):
        for group in catalogue.entry(str(item)).groups:
            groups.setdefault(group, []).append(position)
    return groups


def group_rows(groups: Mapping[str, list[int]], n_items: int) -> Csr:
    """1 where an item is of a group, (D, G)."""
    members = [list(dict.fromkeys(items)) for items in groups.values()]
    columns = np.repeat(np.arange(len(members)), [len(items) for items in members])
    rows = np.array([y for items in members for y in items], dtype=np.int64)
    ones = np.ones(len(rows), dtype=np.int64)
    return sparse.csr_array((ones, (rows, columns)), shape=(n_items, len(members)))
