"""Checks of settings: rules for values, sections, and the sentences of their errors.

Also the section `[ranking]`, whose keys are the fields of `RankingWeights`, with their defaults.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, fields, is_dataclass
from functools import wraps
from typing import (
    Annotated,
    Any,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_type_hints,
)

from pydantic import AfterValidator, ConfigDict, GetCoreSchemaHandler, StrictFloat, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import ErrorDetails, PydanticCustomError, core_schema

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking.score import HALF_LIVES, RENAMED_WEIGHTS, RankingWeights

# Keys of earlier versions: an error names the new one.
RENAMED = {f"ranking.{old}": f"ranking.{new}" for old, new in RENAMED_WEIGHTS.items()}

# Fields of `Settings` that no source may name.
NOT_KEYS = {"data_dir", "fixed"}

T = TypeVar("T")


def rule(expected: str, holds: Callable[[Any], bool]) -> AfterValidator:
    """Return a check of one value. expected: completes "must be"."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise PydanticCustomError("setting", "{expected}", {"expected": expected})
        return value

    return AfterValidator(check)


def require(holds: bool, key: str, expected: str, value: object) -> None:
    """Check several values together, of which `key` is to be corrected."""
    if not holds:
        context = {"expected": expected, "key": key, "value": value}
        raise PydanticCustomError("setting", "{expected}", context)


def one_of(choices: tuple[str, ...]) -> AfterValidator:
    return rule(f"one of {choices}", lambda value: value in choices)


NotNegative = Annotated[StrictFloat, rule("0 or more", lambda x: 0 <= x < float("inf"))]
Positive = Annotated[StrictFloat, rule("above 0", lambda x: 0 < x < float("inf"))]


def invalid(
    error: ValidationError, root: type, name: str = "", environment: Mapping[str, str] | None = None
) -> InvalidSetting:
    """Every mistake in a sentence. root: the class that was checked; name: its section."""
    known = environment or {}
    return InvalidSetting("\n".join(_sentence(one, root, name, known) for one in error.errors()))


def _sentence(one: ErrorDetails, root: type, name: str, environment: Mapping[str, str]) -> str:
    context = one.get("ctx", {})
    keys = [key for key in (*one["loc"], context.get("key")) if key and isinstance(key, str)]
    dotted = ".".join([name, *keys] if name else keys)
    if one["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return unknown(dotted, type_of(root, keys[:-1]))
    value = context.get("value", one["input"])
    if one["type"] == "dataclass_type":
        return f"{dotted} must be a section [{dotted}], found {value!r}"
    variable = f"MOM_{dotted.upper().replace('.', '__')}"
    shown = variable if variable in environment else dotted
    if one["type"] in ("setting", "literal_error"):
        either = "one of " if one["type"] == "literal_error" else ""
        return f"{shown} must be {either}{context['expected']}, found {value!r}; correct it there"
    expected = _TYPES.get(one["type"], one["msg"])
    if one["type"] == "tuple_type":
        expected += get_args(type_of(root, keys))[0].__name__
    return f"{shown} must be {expected}, found {value!r} of type {type(value).__name__}"


_TYPES = {
    "string_type": "of type str",
    "int_type": "of type int",
    "float_type": "of type float",
    "bool_type": "true or false",
    "tuple_type": "a list of ",
}


def unknown(dotted: str, section: type) -> str:
    """What to say about a key that its section does not have."""
    if dotted in RENAMED:
        return f"setting {dotted!r} is called {RENAMED[dotted]!r} now; rename it"
    names = [f.name for f in fields(section) if f.name not in NOT_KEYS]
    near = difflib.get_close_matches(dotted.rpartition(".")[2], names, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown setting {dotted!r}; {meant}known here: {', '.join(names)}"


def type_of(root: type, keys: Sequence[str]) -> Any:
    """The type of a key below a section; str where there is none such."""
    here: Any = root
    for key in keys:
        here = get_type_hints(here).get(key, str) if is_dataclass(here) else str
        here = _RankingKeys if here is RankingWeights else here
    return here


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def section(name: str) -> Callable[[type[T]], type[T]]:
    """Make a class a section of the settings; wrong values raise InvalidSetting."""

    def decorate(cls: type[T]) -> type[T]:
        made: Any = pydantic_dataclass(frozen=True, config=ConfigDict(extra="forbid"))(cls)
        checked = made.__init__

        @wraps(checked)
        def init(self: Any, *args: Any, **values: Any) -> None:
            try:
                checked(self, *args, **values)
            except ValidationError as error:
                raise invalid(error, cls, name) from None

        made.__init__ = init
        return cast("type[T]", made)

    return decorate


# The keys of [ranking] are the fields of RankingWeights, checked as those of a section.
_RankingKeys: Any = section("ranking")(
    type(
        "_RankingKeys",
        (),
        {f.name: f.default for f in fields(RankingWeights)}
        | {
            "__annotations__": {
                f.name: Positive if f.name in HALF_LIVES else NotNegative
                for f in fields(RankingWeights)
            }
        },
    )
)


class FromKeys:
    """Marks RankingWeights that are read from the keys of [ranking]."""

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> Any:
        return core_schema.no_info_wrap_validator_function(
            _weights, handler.generate_schema(_RankingKeys)
        )


def _weights(given: Any, keys_of: Callable[[Any], Any]) -> RankingWeights:
    if isinstance(given, RankingWeights):
        return given
    return RankingWeights(**asdict(keys_of(given)))
