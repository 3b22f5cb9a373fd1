from dataclasses import asdict, replace

import numpy as np
import pytest

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.serving.figures import FitFigures, ModelFigures
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.served_model import Manifest, ServedModel
from mom_pipeline.settings import ModelSettings

N, D, K = 200, 30, 3


@pytest.fixture(scope="session")
def fitted():
    _, X = simulate(N, D, K, items_per_user=8, seed=0)
    return X, MethodOfMoments(K, ranking="components").fit(X).fitted


@pytest.fixture(scope="session")
def make(fitted):
    """A small model of a day; its number is in the popularity, so that a mixture shows."""
    X, model = fitted

    def of(day: int, users=N) -> ServedModel:
        manifest = Manifest(
            version="",
            day=f"2024-03-{day:02}",
            code_version="1",
            data="rows",
            settings=asdict(ModelSettings()),
            parents={},
            metrics={"map": day / 100},
        )
        popularity = np.full(D, 1.0)
        popularity[0] = day
        return ServedModel(
            manifest=manifest,
            model=replace(model, popularity=popularity / popularity.sum()),
            item_ids=np.array([f"{day}/{y}" for y in range(D)], dtype=object),
            user_ids=np.array([f"user {u}" for u in range(users)], dtype=object),
            histories=X[:users],
        )

    return of


@pytest.fixture
def registry(tmp_path):
    return ModelRegistry(tmp_path / "models")


def figures(drift: dict[str, tuple[float, ...]]) -> ModelFigures:
    """Figures of a model whose components moved like this, by day."""
    days = tuple(
        FitFigures(
            day=day,
            full=False,
            changed_users=10,
            users=N,
            captured_share=0.98,
            drift=moved,
            agreement=tuple(1 - value for value in moved),
            mean_agreement=0.9,
        )
        for day, moved in drift.items()
    )
    return ModelFigures(
        spectrum=(3.0, 2.0, 1.0, 0.1),
        residual=0.01,
        weight_sum=0.97,
        negative_mass=0.02,
        bounds=None,
        days=days,
    )


def day_of(served: ServedModel) -> set[int]:
    """The day as each of the three files tells it: one number, or the version is a mixture."""
    popularity = served.model.popularity
    return {
        int(served.manifest.day[-2:]),
        int(served.item_ids[0].split("/")[0]),
        round(float(popularity[0] / popularity[1])),
    }
