"""Decomposition of the whitened tensor (paper, Algorithm 1, step 5)."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.threads import map_blocks, one_blas_thread
from mom_pipeline.core.types import Array, Float64

DecompositionName = Literal["simultaneous", "deflation"]

_REFINING_STEPS = 3
# A relative gain below this in what is explained is none.
_SETTLED = 1e-6
# From components that are all but right already: decompositions of equal tensors agree to 1e-6
# from any rounding of them.
_WARM_TOLERANCE, _WARM_SWEEPS = 1e-14, 15
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class Decomposition:
    """T ~ sum_k lambda_k v_k⊗v_k⊗v_k, ordered by weight: the smallest lambda first."""

    lambdas: Float64  # (K,), all >= 0
    vectors: Float64  # (K, K), v_k in column k
    residual: float  # ||T - sum_k ...|| / ||T||
    iterations: int  # sweeps over all components

    def ordered(self, order: Array) -> Self:
        """Return the same with number order[k] as number k."""
        return replace(self, lambdas=self.lambdas[order], vectors=self.vectors[:, order])


@dataclass(frozen=True)
class Unfolded:
    """A symmetric tensor as a matrix, T_i,(jl) with j <= l: half the numbers, half the work."""

    entries: Array  # (K, K (K+1) / 2)
    times: Array  # how often a pair (jl) stands in T, 1 or 2

    @classmethod
    def from_tensor(cls, T: Array) -> Self:
        j, l = np.triu_indices(len(T))
        return cls(T[:, j, l], np.where(j < l, 2.0, 1.0).astype(T.dtype))

    def contract_twice(self, V: Array) -> Array:
        """Return T(I, v_k, v_k) for every column: (K, columns)."""
        return np.asarray(self._weighted @ _pair_products(V))

    def eigenvalues(self, V: Array) -> Array:
        """Return T(v_k, v_k, v_k) for every column."""
        return np.asarray((self.contract_twice(V) * V).sum(axis=0))

    def without(self, V: Array, lambdas: Array) -> Self:
        """Return T - sum_k lambda_k v_k⊗v_k⊗v_k."""
        return replace(self, entries=self.entries - (V * lambdas) @ _pair_products(V).T)

    def residual(self, V: Array, lambdas: Array, eigenvalues: Array) -> float:
        """Return ||T - sum_k lambda_k v_k⊗v_k⊗v_k|| / ||T||, without making the difference.

        ||T||^2 - 2 sum_k lambda_k T(v_k, v_k, v_k) + sum_kl lambda_k lambda_l (v_k . v_l)^3
        """
        square = float(np.vdot(self.entries, self._weighted))
        explained = 2.0 * float(lambdas @ eigenvalues) - float(lambdas @ (V.T @ V) ** 3 @ lambdas)
        return float(np.sqrt(max(square - explained, 0.0) / max(square, _TINY)))

    @cached_property
    def _weighted(self) -> Array:
        return self.entries * self.times


def _pair_products(V: Array) -> Array:
    """Return v_jk v_lk of all j <= l, (K (K+1) / 2, columns)."""
    K, columns = V.shape
    products, start = np.empty((K * (K + 1) // 2, columns), dtype=V.dtype), 0
    for j in range(K):
        np.multiply(V[j], V[j:], out=products[start : start + K - j])
        start += K - j
    return products


def decompose_tensor(
    T: Float64,
    rng: np.random.Generator,
    *,
    method: DecompositionName = "simultaneous",
    start: Float64 | None = None,
) -> Decomposition:
    """Find eigenvalues and eigenvectors of a symmetric (K, K, K) tensor.

    "simultaneous" finds all at once; "deflation" is the robust power method of the paper,
    one after another.
    start: (K, any) vectors to begin with, for "simultaneous": from there at most 15 sweeps, until
    no column moves by more than rounding.
    """
    if method == "deflation":
        return decompose_by_deflation(T, rng)
    if method != "simultaneous":
        raise InvalidSetting(
            f"decomposition must be 'simultaneous' or 'deflation', found {method!r}"
        )
    if start is None:
        return decompose_simultaneously(T, rng)
    return decompose_simultaneously(
        T, rng, start=start, tol=_WARM_TOLERANCE, max_sweeps=_WARM_SWEEPS, patience=_WARM_SWEEPS
    )


def decompose_simultaneously(
    T: Array,
    rng: np.random.Generator,
    *,
    start: Array | None = None,
    n_starts: int = 3,
    max_sweeps: int = 300,
    tol: float = 1e-10,
    patience: int = 10,
) -> Decomposition:
    """Orthogonalised power iteration on all components, then a few plain power steps.

        V <- qr( T(I, V, V) ),  columns sorted by eigenvalue;   lambda_k = T(v_k, v_k, v_k)

    T: in the precision that is to be worked in.
    The best of several random starts is kept: the one that explains most of T. Plain steps
    free the components from exact orthogonality, which noise does not respect, but too many
    let neighbours fall together: they are taken only while the residual falls.
    tol, patience: a start ends when no column moves by more than `tol`, or after `patience`
    sweeps that explain nothing more.
    Deviation: the paper extracts one component at a time; this reaches the same eigenvalues
    (see the tests) some twenty times as fast.
    """
    if start is not None:
        starts = [_completed(start, len(T), rng)]
    else:
        starts = [_random_start(T, rng) for _ in range(n_starts)]
    unfolded = Unfolded.from_tensor(T)
    # One product is too small for the threads of BLAS: the starts run side by side instead.
    with one_blas_thread():
        runs = map_blocks(
            lambda V: _iterate_orthogonally(unfolded, V, max_sweeps, tol, patience), starts
        )
        V, product, sweeps = max(runs, key=_explained)
        best = _ordered(unfolded, V, product, sweeps)
        for _ in range(_REFINING_STEPS):
            V = unit_columns(product)
            product = unfolded.contract_twice(V)
            refined = _ordered(unfolded, V, product, sweeps)
            if refined.residual >= best.residual:
                break
            best = refined
    return best


def decompose_by_deflation(
    T: Float64, rng: np.random.Generator, *, n_restarts: int = 50, n_steps: int = 100
) -> Decomposition:
    """Robust power method with restarts and deflation (paper, Lemma 2; one component each time).

    v <- T(I, v, v) / ||T(I, v, v)||,   then   T <- T - lambda v⊗v⊗v
    """
    K, vectors, lambdas = len(T), [], []
    whole = remaining = Unfolded.from_tensor(T)
    with one_blas_thread():
        for _ in range(K):
            V = _power_steps(remaining, rng.standard_normal((K, n_restarts)), n_steps)
            best = V[:, [int(np.argmax(remaining.eigenvalues(V)))]]
            best = _power_steps(remaining, best, n_steps)
            lambdas.append(float(remaining.eigenvalues(best)[0]))
            vectors.append(best[:, 0])
            remaining = remaining.without(best, np.array(lambdas[-1:]))
        V = np.column_stack(vectors)
        return _ordered(whole, V, whole.contract_twice(V), n_steps, np.array(lambdas))


def match_columns(A: Array, B: Array) -> tuple[Array, Array]:
    """Which columns of A and B, (D, any), belong together, by total cosine; those of A rise."""
    # The matching of least weight; an edge of weight 0 would be none.
    distances = 2.0 - unit_columns(A).T @ unit_columns(B)
    ours, theirs = min_weight_full_bipartite_matching(sparse.csr_array(distances))
    order = np.argsort(ours)
    return ours[order], theirs[order]


def order_like(A: Array, earlier: Array) -> Array:
    """Return the order of the columns of A that agrees best with earlier ones, (K,).

    Column order[k] belongs to column k of `earlier`, also where these are more or fewer. The other
    columns come in the gaps and at the end, as they were.
    """
    ours, theirs = match_columns(A, earlier)
    kept = theirs < A.shape[1]
    order = np.full(A.shape[1], -1)
    order[theirs[kept]] = ours[kept]
    order[order < 0] = np.setdiff1d(np.arange(A.shape[1]), ours[kept])
    return order


def unit_columns(O: Array) -> Array:
    """Return the columns divided by their lengths; a column of zeros stays."""
    return O / np.maximum(np.linalg.norm(O, axis=0), _TINY)


def _iterate_orthogonally(
    T: Unfolded, V: Array, max_sweeps: int, tol: float, patience: int
) -> tuple[Array, Array, int]:
    """Repeat V <- qr(T(I, V, V)) until no column moves, or nothing more is explained.

    Columns that fit noise wander forever; what all columns explain together, sum_k lambda_k^2,
    has long settled then. Returns V, T(I, V, V) and the sweeps made.
    """
    product = T.contract_twice(V)
    most_explained, idle_sweeps, sweeps = 0.0, 0, 0
    while sweeps < max_sweeps and idle_sweeps < patience:
        sweeps += 1
        explained = _explained((V, product))
        idle_sweeps = 0 if explained > (1 + _SETTLED) * most_explained else idle_sweeps + 1
        most_explained = max(most_explained, explained)
        order = np.argsort(-np.linalg.norm(product, axis=0), kind="stable")
        following, R = np.linalg.qr(product[:, order])
        following *= np.where(np.diag(R) < 0, -1.0, 1.0)
        moved = 1.0 - np.abs((following * V[:, order]).sum(axis=0))
        V, product = following, T.contract_twice(following)
        if moved.max() <= tol:
            break
    return V, product, sweeps


def _explained(run: tuple[Any, ...]) -> float:
    """Return sum_k lambda_k^2 of the columns. run: V, T(I, V, V) and what else there is."""
    V, product, *_ = run
    return float(((product * V).sum(axis=0) ** 2).sum())


def _power_steps(T: Unfolded, V: Array, n_steps: int) -> Array:
    V = unit_columns(V)
    for _ in range(n_steps):
        V = unit_columns(T.contract_twice(V))
    return V


def _random_start(T: Array, rng: np.random.Generator) -> Array:
    """Return the eigenvectors of T(I, I, theta): the components themselves if T is exact."""
    theta = rng.standard_normal(len(T)).astype(T.dtype)
    return np.linalg.eigh(T @ theta)[1]


def _completed(V: Array, K: int, rng: np.random.Generator) -> Array:
    """Return K orthonormal columns that begin with those of V."""
    others = rng.standard_normal((K, max(K - V.shape[1], 0))).astype(V.dtype)
    return np.linalg.qr(np.column_stack([V[:, :K], others]))[0]


def _ordered(
    T: Unfolded, V: Array, product: Array, iterations: int, lambdas: Array | None = None
) -> Decomposition:
    """Make every eigenvalue positive and put the heaviest component (smallest lambda) first.

    product: T(I, v_k, v_k).  lambdas: T(v_k, v_k, v_k) unless given.
    """
    eigenvalues = (product * V).sum(axis=0)
    lambdas = eigenvalues if lambdas is None else lambdas
    order = np.argsort(np.abs(lambdas), kind="stable")
    signs = np.where(lambdas < 0, -1.0, 1.0)[order].astype(V.dtype)
    V, lambdas, eigenvalues = V[:, order] * signs, np.abs(lambdas)[order], eigenvalues[order]
    return Decomposition(lambdas, V, T.residual(V, lambdas, eigenvalues * signs), iterations)
