"""The rules of lists: settings, `items.csv`, and what a shop says at once in `shop/items.json`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.catalogue import ITEMS_FILE, Catalogue
from mom_pipeline.core.files import locked, write_text
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.ranking.list_rules import ListRules
from mom_pipeline.core.types import Csr
from mom_pipeline.errors import MomError
from mom_pipeline.groups.names import NAMES_FILE, kept_groups
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


def list_rules(settings: Settings) -> dict[str, Any]:
    """What settings, items.csv and the shop say about every list, for a Recommender."""
    serving, catalogue = settings.serving, Catalogue.open(settings.data_dir)
    shop = shop_items(settings)
    hidden = (item for item, said in shop.items() if said.hidden)
    left_out = catalogue.left_out(serving.exclude_items, serving.exclude_groups)
    return {
        "said_of": frozenset(shop),
        "exclude_seen": serving.exclude_seen,
        "catalogue": catalogue,
        "kept": kept_groups(settings),
        "left_out": left_out.union(hidden),
        "boosts": {item: said.boost for item, said in shop.items() if said.boost != 1},
        "max_per_group": serving.max_per_group,
        "diversity": serving.diversity,
    }


def ruled(served: ServedModel, rules: Mapping[str, Any]) -> FittedModel:
    """The model of a version under the rules of `list_rules`."""
    positions, D = served.item_positions, served.model.n_items
    hidden, boosts, groups = np.zeros(D, dtype=bool), np.ones(D), None
    hidden[[positions[item] for item in rules.get("left_out", ()) if item in positions]] = True
    for item, boost in rules.get("boosts", {}).items():
        if item in positions:
            boosts[positions[item]] = boost
    if max_per_group := rules.get("max_per_group", 0):
        groups = group_rows(catalogue_groups(served, rules["catalogue"]), D)
    own = hidden if hidden.any() else None, boosts if (boosts != 1).any() else None
    return replace(
        served.model, list_rules=ListRules(*own, groups, max_per_group, rules.get("diversity", 0.0))
    )


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
