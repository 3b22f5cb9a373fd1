"""Which methods are compared, to which reference, and with what."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module

from mom_pipeline.comparison.errors import ComparisonError
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.methods.interface import Method, Setting, Settings
from mom_pipeline.comparison.trials import Trial
from mom_pipeline.core.evaluation.metrics import CUTOFFS

REGISTRY = "mom_pipeline.comparison.methods.registry"
REFERENCE = "three-moment"


@dataclass(frozen=True)
class Options:
    """How a comparison is run.

    methods: names, in the order of the tables; none: all.  reference: the method that
        differences are taken to; empty: the three-moment ranking, or the last without it.
    n_components: K of every method that has such a number, and whose grid does not choose it.
    budget: of the choice of a method's settings, and again of its fit and lists.
    registry: module whose `METHODS` holds the methods.
    """

    methods: tuple[str, ...] = ()
    reference: str = ""
    n_components: int = 100
    seed: int = 0
    cutoffs: tuple[int, ...] = CUTOFFS
    budget: Budget = field(default_factory=Budget)
    registry: str = REGISTRY


def check_options(options: Options) -> None:
    """Raise ComparisonError for names that do not exist, before any data is read."""
    chosen_reference(options, chosen_methods(options))


def chosen_methods(options: Options) -> list[Method]:
    """Return the methods by their names, or say which names there are."""
    known: dict[str, Method] = import_module(options.registry).METHODS
    names = options.methods or tuple(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ComparisonError(
            f"unknown method {', '.join(unknown)}; the known ones are {', '.join(known)}"
        )
    return [known[name] for name in dict.fromkeys(names)]


def chosen_reference(options: Options, methods: Sequence[Method]) -> str:
    """Return the name of the reference, or say that it does not take part."""
    names = [method.name for method in methods]
    if not options.reference:
        return REFERENCE if REFERENCE in names else names[-1]
    if options.reference not in names:
        raise ComparisonError(
            f"the reference {options.reference} is not among the methods compared, "
            f"{', '.join(names)}; add it, or choose one of them"
        )
    return options.reference


def grid_for(
    method: Method, n_components: int, trial: Trial, *, exclude_seen: bool = True
) -> tuple[Settings, ...]:
    """Return the grid with K in it, where the method has one and the grid does not choose it.

    No more than the data have users and items. A method that chooses for its lists is told
    when these hold all items.
    """
    common: dict[str, Setting] = {}
    if method.size:
        common[method.size] = min(n_components, *trial.train.shape)
    if method.lists and not exclude_seen:
        common[method.lists] = "all"
    return tuple({**common, **settings} for settings in method.grid)
