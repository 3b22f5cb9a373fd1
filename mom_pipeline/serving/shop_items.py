"""What a shop says about its items at once: `shop/items.json`, hidden ones and boosts by id."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mom_pipeline.catalogue import ITEMS_FILE
from mom_pipeline.core.files import locked, write_text
from mom_pipeline.errors import MomError
from mom_pipeline.groups.names import NAMES_FILE
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
