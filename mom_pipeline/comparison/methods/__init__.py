"""Recommenders to compare, by name in `METHODS`; `PARTS` are for `compare --parts`."""

import tomllib
from dataclasses import replace
from importlib.resources import files

from mom_pipeline.comparison.methods.interface import Method
from mom_pipeline.comparison.methods.moments import FORMS, THREE_MOMENT, WITHOUT
from mom_pipeline.comparison.methods.plsi import PLSI
from mom_pipeline.comparison.methods.rivals import RIVALS

_GRIDS = tomllib.loads(files(__name__).joinpath("grids.toml").read_text(encoding="utf-8"))
# In the order of a table: from the plainest rival to the method itself.
METHODS: dict[str, Method] = {
    m.name: replace(m, grid=tuple(_GRIDS.get(m.name, m.grid)))
    for m in (*RIVALS, PLSI, *FORMS, *WITHOUT)
}
ALL = tuple(m.name for m in (*RIVALS, PLSI, *FORMS))
PARTS = tuple(m.name for m in (THREE_MOMENT, *WITHOUT))
