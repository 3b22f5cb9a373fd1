"""The method: pure numpy and scipy, arrays in, frozen dataclasses out."""

from mom_pipeline.core.evaluation.metrics import CUTOFFS, RankingMetrics, evaluate_ranking
from mom_pipeline.core.model import MethodOfMoments
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.simulation import LatentClasses, simulate

__all__ = [
    "CUTOFFS",
    "LatentClasses",
    "MethodOfMoments",
    "RankingMetrics",
    "RankingWeights",
    "evaluate_ranking",
    "simulate",
]
