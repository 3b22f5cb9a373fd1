"""Intervals of a mean difference between two recommenders on the same users."""

import numpy as np

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Float64

# Counts in memory at once on each thread: 16 MB.
_COUNTS_PER_BLOCK = 2_000_000


def paired_interval(
    values: Array,
    reference: Array,
    rng: np.random.Generator,
    *,
    samples: int = 1000,
    level: float = 0.95,
) -> tuple[Float64, Float64, Float64]:
    """Return the mean difference and the ends of its paired bootstrap interval.

        d_u = values_u - reference_u,   mean_s = sum_u c_su d_u / N,   c_s ~ Multinomial(N, 1/N)

    values, reference: (users, ...) of the same users in the same order; every figure behind the
    first axis has an interval of its own, from the same resampled users. The ends are the
    quantiles (1 - level) / 2 and (1 + level) / 2 of the resampled means.
    Equal generators give equal intervals, whatever the number of threads.
    """
    d = _differences(values, reference, samples, level)
    N = len(d)
    per_block = max(1, _COUNTS_PER_BLOCK // N)
    sizes = [min(per_block, samples - start) for start in range(0, samples, per_block)]

    def resampled(task: tuple[int, np.random.Generator]) -> Float64:
        n_samples, own_rng = task
        drawn = own_rng.integers(0, N, (n_samples, N))
        drawn += np.arange(0, n_samples * N, N)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=n_samples * N).astype(np.float64)
        return np.asarray(counts.reshape(n_samples, N) @ d / N)

    means = np.concatenate(map_blocks(resampled, zip(sizes, rng.spawn(len(sizes)), strict=True)))
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    shape = values.shape[1:]
    return d.mean(axis=0).reshape(shape), low.reshape(shape), high.reshape(shape)


def _differences(values: Array, reference: Array, samples: int, level: float) -> Float64:
    """Return the differences of all users, (N, figures), after a look at the arguments."""
    if values.shape != reference.shape or values.ndim == 0 or len(values) == 0:
        raise InvalidInteractions(
            "expected figures of the same users, at least one, on both sides; found arrays of "
            f"shapes {values.shape} and {reference.shape}"
        )
    if samples < 1:
        raise InvalidSetting(f"samples must be at least 1, found {samples}")
    if not 0 < level < 1:
        raise InvalidSetting(f"level must lie between 0 and 1, found {level}")
    d = (np.asarray(values, np.float64) - np.asarray(reference, np.float64)).reshape(
        len(values), -1
    )
    if not np.isfinite(d).all():
        raise InvalidInteractions("a figure of some user is infinite or NaN; compute it again")
    return d
