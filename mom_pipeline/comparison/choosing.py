"""Settings of a method chosen on validation data, with the same care for every method."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mom_pipeline.comparison.tasks import Answer, read_lists
from mom_pipeline.comparison.trials import Trial
from mom_pipeline.core.evaluation.metrics import evaluate_ranking
from mom_pipeline.core.types import Array

# Lists of this length decide, and at most so many users are asked.
CUTOFF = 20
MAX_USERS = 3000


@dataclass(frozen=True)
class Chosen:
    """Which setting of the grid is the best, and the quality of every one that was tried.

    failure: why none could be tried; empty otherwise.
    qualities: by place in the grid, None for a setting that could not be tried.
    settings: what the method chose by itself beyond the grid.
    """

    place: int = 0
    failure: str = ""
    qualities: tuple[float | None, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def best_setting(answers: Sequence[Answer], folder: Path, trial: Trial) -> Chosen:
    """Choose by the mean of Recall@20 and MAP@20; of equals the first.

    answers, and the lists below `folder`: one for each setting of the grid.
    """
    qualities = [
        None if answer.failure else list_quality(read_lists(folder, place), trial)
        for place, answer in enumerate(answers)
    ]
    tried = [place for place, quality in enumerate(qualities) if quality is not None]
    if not tried:
        return Chosen(failure=answers[0].failure, qualities=tuple(qualities))
    best = max(tried, key=lambda place: qualities[place] or 0.0)
    notes: dict[str, Any] = {"validation quality by setting": qualities}
    if len(tried) < len(answers):
        reason = next(answer.failure for answer in answers if answer.failure)
        notes["settings tried"] = f"{len(tried)} of {len(answers)}: one {reason}"
    return Chosen(best, "", tuple(qualities), notes, answers[best].chosen)


def list_quality(ids: Array, trial: Trial) -> float:
    """Return the mean of Recall@20 and MAP@20."""
    found = evaluate_ranking(ids, trial.test, [CUTOFF])
    return (found.recall[CUTOFF] + found.map[CUTOFF]) / 2
