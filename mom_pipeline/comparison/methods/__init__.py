"""Recommenders to compare with, one file each, under their names in `METHODS`."""

from mom_pipeline.comparison.methods.bpr import BPR
from mom_pipeline.comparison.methods.ease import EASE
from mom_pipeline.comparison.methods.interface import Method
from mom_pipeline.comparison.methods.item_knn import ITEM_KNN
from mom_pipeline.comparison.methods.moments import (
    MOM_ALGORITHM_1,
    MOM_BALANCED,
    MOM_PAPER,
    MOM_UNBIASED,
    THREE_MOMENT,
)
from mom_pipeline.comparison.methods.plsi import PLSI
from mom_pipeline.comparison.methods.popularity import (
    OWN_HISTORY,
    POPULARITY,
    RECENT_POPULARITY,
)
from mom_pipeline.comparison.methods.wrmf import WRMF

_RIVALS = (POPULARITY, RECENT_POPULARITY, OWN_HISTORY, ITEM_KNN, PLSI, BPR, WRMF, EASE)
_OURS = (MOM_ALGORITHM_1, MOM_PAPER, MOM_UNBIASED, MOM_BALANCED, THREE_MOMENT)
# In the order of a table: from the plainest rival to the method itself.
METHODS: dict[str, Method] = {method.name: method for method in (*_RIVALS, *_OURS)}
