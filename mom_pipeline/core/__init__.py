"""The method of moments on arrays, with numpy, scipy and threadpoolctl alone."""

from mom_pipeline.core.evaluation.backtest import RankingScorer
from mom_pipeline.core.evaluation.metrics import CUTOFFS, RankingMetrics, evaluate_ranking
from mom_pipeline.core.model import MethodOfMoments
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.simulation import LatentClasses, simulate

__all__ = [
    "CUTOFFS",
    "LatentClasses",
    "MethodOfMoments",
    "RankingMetrics",
    "RankingScorer",
    "RankingWeights",
    "evaluate_ranking",
    "simulate",
]
