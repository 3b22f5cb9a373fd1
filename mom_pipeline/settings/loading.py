"""Reading settings: the defaults, then `pipeline.toml`, then the environment."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.settings.settings import Settings

DATA_DIR_VARIABLE = "MOM_DATA_DIR"
SETTINGS_FILE = "pipeline.toml"


def load_settings(
    data_dir: Path | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Settings of a data folder: the defaults, then its `pipeline.toml`, then the environment.

    Raises InvalidSetting for a key that does not exist, a value of another type, or a value
    outside of its range.
    """
    environment = os.environ if environment is None else environment
    folder = data_dir or Path(environment.get(DATA_DIR_VARIABLE) or "data")
    values = _read_toml(folder / SETTINGS_FILE)
    _apply_environment(values, environment)
    return Settings(data_dir=folder, **_section_values(Settings, values, ""))


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{path} is not valid TOML ({error}); correct it") from error


def _apply_environment(values: dict[str, Any], environment: Mapping[str, str]) -> None:
    """Put `MOM_A__B=text` at values["a"]["b"]; the text is converted to the key's type later."""
    for name in sorted(environment):
        if not name.startswith("MOM_") or "__" not in name:
            continue
        *parents, key = name.removeprefix("MOM_").lower().split("__")
        place = values
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise InvalidSetting(f"{name} names a key below {parent!r}, which is not a section")
        place[key] = _FromEnvironment(name, environment[name])


@dataclass(frozen=True)
class _FromEnvironment:
    name: str
    text: str


def _section_values(section: type, values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Constructor arguments of a section, checked against its fields."""
    types = get_type_hints(section)
    names = [f.name for f in fields(section) if f.name != "data_dir"]
    arguments: dict[str, Any] = {}
    for key, value in values.items():
        dotted = f"{prefix}{key}"
        if key not in names:
            raise InvalidSetting(f"unknown setting {dotted!r}; known here: {', '.join(names)}")
        if is_dataclass(types[key]):
            if not isinstance(value, Mapping):
                raise InvalidSetting(f"{dotted} must be a section [{dotted}], found {value!r}")
            arguments[key] = types[key](**_section_values(types[key], value, f"{dotted}."))
        else:
            arguments[key] = _typed(dotted, types[key], value)
    return arguments


def _typed(dotted: str, wanted: Any, value: Any) -> Any:
    """The value as the wanted type; text from the environment is converted.

    A tuple is a list in the file, and comma-separated in the environment.
    """
    if get_origin(wanted) is tuple:
        return _typed_entries(dotted, get_args(wanted)[0], value)
    if isinstance(value, _FromEnvironment):
        try:
            return _flag(value.text) if wanted is bool else wanted(value.text)
        except ValueError as error:
            expected = "true or false" if wanted is bool else f"of type {wanted.__name__}"
            raise InvalidSetting(
                f"{value.name} must be {expected}, found {value.text!r}"
            ) from error
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        raise InvalidSetting(
            f"{dotted} must be of type {wanted.__name__}, "
            f"found {value!r} of type {type(value).__name__}"
        )
    return value


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _typed_entries(dotted: str, wanted: type, value: Any) -> tuple[Any, ...]:
    if isinstance(value, _FromEnvironment):
        value = [_FromEnvironment(value.name, text) for text in value.text.split(",")]
    if not isinstance(value, list):
        raise InvalidSetting(f"{dotted} must be a list of {wanted.__name__}, found {value!r}")
    return tuple(_typed(dotted, wanted, entry) for entry in value)
