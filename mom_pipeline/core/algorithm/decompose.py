"""Algorithm 1 in order: from moments seen through an anchor to the components.

There is one way through it. A fit is a day without a yesterday; a later day, a half of the
users, a smaller K, shards: the same call on other sums.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from mom_pipeline.core.algorithm.decomposition import (
    Decomposition,
    DecompositionName,
    decompose_tensor,
    order_like,
)
from mom_pipeline.core.algorithm.recovery import ProjectionName, Recovery, item_factors, recover
from mom_pipeline.core.algorithm.whitening import Whitening, whiten, whitened_tensor
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.sums import padded
from mom_pipeline.core.types import Array, Float64


@dataclass(frozen=True)
class DecomposeSettings:
    """How components are taken from the moments; see the file of each step for the meanings."""

    n_components: int
    decomposition: DecompositionName = "simultaneous"
    projection: ProjectionName = "clip"
    cap_weights: bool = True
    seed: int = 0

    @classmethod
    def from_settings(cls, settings: Any) -> Self:
        """Return them from any object that has them among its settings."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class Components:
    """Every step of Algorithm 1 on one set of sums."""

    whitening: Whitening
    decomposition: Decomposition
    recovery: Recovery
    in_span: Float64  # (K', K) mu_k in the coordinates of the basis, E diag(s)^(1/2) v_k

    @property
    def item_probs(self) -> Array:
        """O = P[item | component], (D, K)."""
        return self.recovery.item_probs

    @property
    def weights(self) -> Float64:
        """Pi = P[component], (K,)."""
        return self.recovery.weights

    def ordered(self, order: Array) -> Self:
        """Return the components with number order[k] as number k."""
        r = self.recovery
        return replace(
            self,
            decomposition=self.decomposition.ordered(order),
            recovery=replace(r, item_probs=r.item_probs[:, order], weights=r.weights[order]),
            in_span=self.in_span[:, order],
        )


@dataclass(frozen=True)
class ComponentFit:
    """Components, the sums that they come from, and the anchor, where later ones start from."""

    anchor: Anchor
    sums: AnchoredSums
    components: Components


class Stages:
    """Reports and times the stages of a fit.

    progress: None, a callback(stage, share done), or a `rich.progress.Progress`.
    """

    def __init__(self, progress: Any = None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress
        self._tasks: dict[str, Any] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[float], None]]:
        """Time one stage; yields a function that takes the share done, 0 to 1."""
        self._report(name, 0.0)
        start = time.perf_counter()
        yield lambda share: self._report(name, share)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        self._report(name, 1.0)

    def _report(self, name: str, share: float) -> None:
        if hasattr(self._progress, "add_task"):
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(name, total=1.0)
            self._progress.update(self._tasks[name], completed=share)
        elif self._progress is not None:
            self._progress(name, share)


def decompose(
    anchor: Anchor,
    sums: AnchoredSums,
    settings: DecomposeSettings,
    *,
    earlier_item_probs: Array | None = None,
    stages: Stages | None = None,
) -> Components:
    """Run steps 2 to 8 of Algorithm 1 inside the span of the anchor."""
    stages = stages or Stages()
    with stages.stage("whitening"):
        whitening = whiten(sums, settings.n_components, dtype=anchor.basis.dtype)
    with stages.stage("tensor"):
        T = whitened_tensor(sums, whitening)
    with stages.stage("decomposition"):
        return find_components(
            anchor, sums, whitening, T, settings, earlier_item_probs=earlier_item_probs
        )


def find_components(
    anchor: Anchor,
    sums: AnchoredSums,
    whitening: Whitening,
    T: Float64,
    settings: DecomposeSettings,
    *,
    earlier_item_probs: Array | None = None,
) -> Components:
    """Decompose the whitened tensor and recover (O, pi): steps 5 to 8.

    Where the anchor has components, the decomposition starts from them and keeps their numbers:
    equal sums and an equal anchor give equal components, whatever the days in between.
    earlier_item_probs: (D_earlier, any) on the anchor's own day, the components whose numbers
    are to be kept.
    """
    decomposition = decompose_tensor(
        T,
        np.random.default_rng(settings.seed),
        method=settings.decomposition,
        start=None if anchor.components is None else whitening.factors.T @ anchor.components,
    )
    if anchor.components is not None:
        in_span = whitening.inverse @ decomposition.vectors
        decomposition = decomposition.ordered(order_like(in_span, anchor.components))
    recovery = recover(
        item_factors(anchor, sums, whitening, decomposition.vectors),
        decomposition,
        anchor.item_scale,
        projection=settings.projection,
        cap_weights=settings.cap_weights,
    )
    in_span = whitening.inverse @ decomposition.vectors
    components = Components(whitening, decomposition, recovery, in_span)
    if anchor.components is None and earlier_item_probs is not None:
        D = max(len(earlier_item_probs), anchor.n_items)
        order = order_like(padded(recovery.item_probs, D), padded(earlier_item_probs, D))
        return components.ordered(order)
    return components
