import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.served_model import FitFigures, Manifest, ModelFigures, ServedModel
from mom_pipeline.settings import ModelSettings

N, D, K = 200, 30, 3
# Ids as people could bring them.
ODD = [
    'say "it"',
    "two\nlines",
    "ends with a line\n",
    '=HYPERLINK("http://x")',
    "a/b/../c/",
    "ünïcode 🙂",
    " ",
    "%2F",
    "a?b=c#d",
    "'; DROP TABLE users; --",
    "\x00\x1b[31m",
]


@pytest.fixture(scope="session")
def fitted():
    _, X = simulate(N, D, K, items_per_user=8, seed=0)
    return X, MethodOfMoments(K, ranking="components").fit(X).fitted


@pytest.fixture(scope="session")
def make(fitted):
    """A small model of a day; its number is in the popularity, so that a mixture shows."""
    X, model = fitted

    def of(day: int, users=N) -> ServedModel:
        settings, metrics = asdict(ModelSettings()), {"map": day / 100}
        popularity = np.full(D, 1.0)
        popularity[0] = day
        return ServedModel(
            manifest=Manifest("", f"2024-03-{day:02}", "1", "rows", settings, {}, metrics),
            model=replace(model, popularity=popularity / popularity.sum()),
            item_ids=np.array([f"{day}/{y}" for y in range(D)], dtype=object),
            user_ids=np.array([f"user {u}" for u in range(users)], dtype=object),
            histories=X[:users],
            last_days=X[:users],
        )

    return of


@pytest.fixture
def registry(tmp_path):
    return ModelRegistry(tmp_path / "models")


def in_use(folder: Path, served: ServedModel) -> ModelRegistry:
    """The registry of a data folder that uses a model."""
    registry = ModelRegistry(folder / "models")
    registry.promote(registry.add(served), "a test")
    return registry


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


def asked(app, path, **options):
    """The answer of an application to one request."""

    async def ask():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.request(options.pop("method", "GET"), path, **options)

    # In a thread of its own: the browser's tests keep a loop running in this one.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(ask())).result()
