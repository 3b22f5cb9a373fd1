"""Every recommender of a comparison under its name."""

from dataclasses import replace

from mom_pipeline.comparison.methods.bpr import BPR
from mom_pipeline.comparison.methods.ease import EASE
from mom_pipeline.comparison.methods.interface import Method
from mom_pipeline.comparison.methods.item_knn import ITEM_KNN
from mom_pipeline.comparison.methods.moments import (
    MOM_BALANCED,
    MOM_PAPER,
    MOM_UNBIASED,
    THREE_MOMENT,
)
from mom_pipeline.comparison.methods.plsi import PLSI
from mom_pipeline.comparison.methods.popularity import POPULARITY
from mom_pipeline.comparison.methods.wrmf import WRMF

# What each method with a choice of K calls it.
SIZES = {
    PLSI.name: "n_components",
    BPR.name: "factors",
    WRMF.name: "factors",
    MOM_PAPER.name: "n_components",
    MOM_UNBIASED.name: "n_components",
    MOM_BALANCED.name: "n_components",
    THREE_MOMENT.name: "n_components",
}

# In the order of a table: from the plainest rival to the method itself.
METHODS: dict[str, Method] = {
    method.name: replace(method, size=SIZES.get(method.name, ""))
    for method in (
        POPULARITY,
        ITEM_KNN,
        PLSI,
        BPR,
        WRMF,
        EASE,
        MOM_PAPER,
        MOM_UNBIASED,
        MOM_BALANCED,
        THREE_MOMENT,
    )
}
