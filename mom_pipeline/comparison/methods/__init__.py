"""Recommenders to compare, by name in `METHODS`; `PARTS` are for `compare --parts`."""

from mom_pipeline.comparison.methods.ease import EASE
from mom_pipeline.comparison.methods.interface import Method
from mom_pipeline.comparison.methods.library import BPR, ITEM_KNN, WRMF
from mom_pipeline.comparison.methods.moments import (
    MOM_ALGORITHM_1,
    MOM_BALANCED,
    MOM_PAPER,
    MOM_UNBIASED,
    THREE_MOMENT,
)
from mom_pipeline.comparison.methods.moments import PARTS as _WITHOUT_A_PART
from mom_pipeline.comparison.methods.plsi import PLSI
from mom_pipeline.comparison.methods.popularity import (
    OWN_HISTORY,
    POPULARITY,
    RECENT_POPULARITY,
)

_RIVALS = (POPULARITY, RECENT_POPULARITY, OWN_HISTORY, ITEM_KNN, PLSI, BPR, WRMF, EASE)
_OURS = (MOM_ALGORITHM_1, MOM_PAPER, MOM_UNBIASED, MOM_BALANCED, THREE_MOMENT)
# In the order of a table: from the plainest rival to the method itself.
METHODS: dict[str, Method] = {m.name: m for m in (*_RIVALS, *_OURS, *_WITHOUT_A_PART)}
ALL = tuple(m.name for m in (*_RIVALS, *_OURS))
PARTS = tuple(m.name for m in (THREE_MOMENT, *_WITHOUT_A_PART))
