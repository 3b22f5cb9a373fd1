"""Recommenders to compare, by name in `METHODS`; `PARTS` are for `compare --parts`."""

from mom_pipeline.comparison.methods import moments, rivals
from mom_pipeline.comparison.methods.interface import Method
from mom_pipeline.comparison.methods.plsi import PLSI

_RIVALS = (
    rivals.POPULARITY,
    rivals.RECENT_POPULARITY,
    rivals.OWN_HISTORY,
    rivals.ITEM_KNN,
    PLSI,
    rivals.BPR,
    rivals.WRMF,
    rivals.EASE,
    rivals.EASE_WITH_TREND,
)
# In the order of a table: from the plainest rival to the method itself.
METHODS: dict[str, Method] = {m.name: m for m in (*_RIVALS, *moments.FORMS, *moments.PARTS)}
ALL = tuple(m.name for m in (*_RIVALS, *moments.FORMS))
PARTS = tuple(m.name for m in (moments.THREE_MOMENT, *moments.PARTS))
