"""Theorem 1 of the paper: its bounds and the users that it asks for, as numbers."""

from dataclasses import dataclass, replace

import numpy as np

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.types import Float64

# Two distributions are at most sqrt(2) apart in the Euclidean norm; two probabilities at most 1.
_LARGEST_MU_ERROR = float(np.sqrt(2))
_LARGEST_PI_ERROR = 1.0


@dataclass(frozen=True)
class Bounds:
    """How far O and pi may be from the truth, with probability 1 - delta."""

    mu_bound: float  # of ||mu_k - mu_k'||
    pi_bound: float  # of |pi_k - pi_k'|
    n1: float  # users that the theorem asks for, its open constants taken as 1
    n2: float
    n3: float
    n_users: int
    d1s: float  # means of nnz, nnz^2, nnz^3
    d2s: float
    d3s: float
    sigma_1: float  # ends of the spectrum of M2
    sigma_k: float
    delta: float
    warnings: tuple[str, ...]

    @property
    def says_nothing(self) -> bool:
        """Return whether a bound is larger than any error that is possible at all."""
        return self.mu_bound > _LARGEST_MU_ERROR or self.pi_bound > _LARGEST_PI_ERROR

    @property
    def in_words(self) -> str:
        """Return what the bounds tell about this model, or that they tell nothing."""
        told = []
        for what, bound, largest, pair in (
            ("a column of O", self.mu_bound, _LARGEST_MU_ERROR, "distributions"),
            ("a weight in pi", self.pi_bound, _LARGEST_PI_ERROR, "probabilities"),
        ):
            told.append(f"{what} is within {bound:.3g} of the truth")
            if bound > largest:
                told[-1] += f", which says nothing about this model: two {pair} are never further "
                told[-1] += f"apart than {largest:.3g}"
        advice = ". The split-half agreement is the figure to act on" if self.says_nothing else ""
        return f"With probability {1 - self.delta:g}, {'; '.join(told)}{advice}."


def bounds_of(
    estimator: Estimator,
    sums: MomentSums,
    eigenvalues: Float64,
    weights: Float64,
    delta: float = 0.05,
) -> Bounds | None:
    """Evaluate Theorem 1 on a model that it is about: one of the paper's plain sums; else None."""
    if not estimator.is_the_papers:
        return None
    return theorem_1(sums.n_users, sums.mean_sizes, eigenvalues, weights, delta=delta)


def theorem_1(
    n_users: int,
    mean_sizes: tuple[float, float, float],
    eigenvalues: Float64,
    weights: Float64,
    *,
    delta: float = 0.05,
) -> Bounds:
    """Evaluate Theorem 1: (d1s, d2s, d3s), eigenvalues (K,) of M2, largest first, and pi (K,)."""
    if not 0 < delta < 1:
        raise InvalidSetting(f"delta must lie between 0 and 1, found {delta}")
    (d1, d2, d3), K = mean_sizes, len(weights)
    s1, sk = float(eigenvalues[0]), float(eigenvalues[-1])
    eps = 1 + np.sqrt(np.log(1 / delta) / 2)
    mu_bound = (eps / np.sqrt(n_users)) * (
        160 * np.sqrt(s1) / (d2 * sk**2.5)
        + 32 * np.sqrt(2 * s1) / (d3 * sk**1.5)
        + 4 * np.sqrt(s1) / (d2 * sk)
    )
    pi_bound = eps / np.sqrt(n_users) / d3 * (200 / sk**2.5 + 40 * np.sqrt(2) / sk**1.5)
    spread = K * np.sqrt(weights.max() / weights.min())
    # log log is meaningless for one component, where nothing has to be told apart.
    n1 = np.log(K) + np.log(max(np.log(spread), 1.0))
    n2 = (eps / (d2 * sk)) ** 2
    tensor_error = 10 / (d2 * sk**2.5) + 2 * np.sqrt(2) / (d3 * sk**1.5)
    n3 = (K * tensor_error * eps) ** 2
    mu_bound, pi_bound, n1, n2, n3 = (float(x) for x in (mu_bound, pi_bound, n1, n2, n3))
    warnings, needed = few_users(n_users, K), max(n1, n2, n3)
    if needed > n_users:
        warnings.append(
            f"Theorem 1 asks for about {needed:.3g} users (constants taken as 1), found {n_users}: "
            "its premise is not met"
        )
    sizes = n1, n2, n3, n_users, d1, d2, d3, s1, sk, delta
    bounds = Bounds(mu_bound, pi_bound, *sizes, tuple(warnings))
    if not bounds.says_nothing:
        return bounds
    empty = "the bound is larger than any possible error, so it says nothing about this model"
    return replace(bounds, warnings=(*warnings, empty))


def few_users(N: int, K: int) -> list[str]:
    """Return a warning where there are fewer users than the method asks for."""
    if N >= K**2:
        return []
    return [
        f"N = {N} users is below K^2 = {K**2}: the paper's method is not expected to work; "
        "lower n_components or add users"
    ]
