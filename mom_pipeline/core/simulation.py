"""Simulated data with known components: the paper's generative process (equation 1)."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.types import Array, Csr

# Draws are made for this many users at a time, so that memory does not grow with N.
_USERS_PER_BLOCK = 65_536
# Of the gamma distribution: a small one makes the components differ sharply.
_CONCENTRATION = 0.1


@dataclass(frozen=True)
class LatentClasses:
    """The parameters of the model: O = P[item | component] and pi = P[component]."""

    item_probs: Array  # (D, K), columns sum to 1
    weights: Array  # (K,), sums to 1


def draw_classes(
    n_items: int, n_components: int, rng: np.random.Generator, *, zipf_exponent: float = 0.7
) -> LatentClasses:
    """Draw (pi, O) with O_yk ~ popularity_y gamma_yk,  popularity_y = rank_y^(-zipf_exponent)."""
    popularity = np.arange(1, n_items + 1, dtype=np.float64) ** -zipf_exponent
    rng.shuffle(popularity)
    affinity = rng.gamma(_CONCENTRATION, size=(n_items, n_components)) + 1e-12
    O = popularity[:, None] * affinity
    O /= O.sum(axis=0)
    pi = rng.dirichlet(np.full(n_components, 10.0))
    order = np.argsort(-pi, kind="stable")
    return LatentClasses(item_probs=O[:, order], weights=pi[order])


def draw_interactions(truth: LatentClasses, items_per_user: Array, rng: np.random.Generator) -> Csr:
    """Draw one row of counts per user, (N, D) (paper, equation 1).

    h ~ pi once for a user, as the paper's moments suppose;   y ~ P[y | h], n_u times
    """
    D, K = truth.item_probs.shape
    lengths = np.asarray(items_per_user, dtype=np.int64)
    cumulative = np.cumsum(truth.item_probs.T, axis=1)
    blocks = []
    for start in range(0, len(lengths), _USERS_PER_BLOCK):
        n = lengths[start : start + _USERS_PER_BLOCK]
        users = np.repeat(np.arange(len(n)), n)
        components = rng.choice(K, size=len(n), p=truth.weights)[users]
        items = _draw_items(cumulative, components, rng)
        counts: Csr = sparse.coo_array((np.ones(len(users)), (users, items)), (len(n), D)).tocsr()
        counts.sum_duplicates()
        blocks.append(counts)
    return sparse.csr_array(sparse.vstack(blocks, format="csr"))


def simulate(
    n_users: int,
    n_items: int,
    n_components: int,
    items_per_user: float = 15.0,
    seed: int = 0,
    *,
    zipf_exponent: float = 0.7,
) -> tuple[LatentClasses, Csr]:
    """Draw a model and (N, D) counts; 3 + Poisson(items_per_user - 3) events a user."""
    if min(n_users, n_items, n_components) < 1 or items_per_user < 3:
        raise InvalidSetting(
            "expected at least 1 user, item and component, and 3 items per user, as a third moment "
            f"needs triples; found {n_users=}, {n_items=}, {n_components=}, {items_per_user=}"
        )
    if n_components > n_items:
        raise InvalidSetting(
            f"n_components={n_components} components over n_items={n_items} cannot have full rank; "
            "use at most as many components as items"
        )
    rng = np.random.default_rng(seed)
    truth = draw_classes(n_items, n_components, rng, zipf_exponent=zipf_exponent)
    lengths = 3 + rng.poisson(items_per_user - 3, size=n_users)
    return truth, draw_interactions(truth, lengths, rng)


def _draw_items(cumulative: Array, components: Array, rng: np.random.Generator) -> Array:
    """Draw an item for every event by inverting its component's distribution function."""
    K, D = cumulative.shape
    items = np.empty(len(components), dtype=np.int64)
    draws = rng.random(len(components))
    order = np.argsort(components, kind="stable")
    bounds = np.searchsorted(components[order], np.arange(K + 1))
    for k in range(K):
        events = order[bounds[k] : bounds[k + 1]]
        items[events] = np.searchsorted(cumulative[k], draws[events] * cumulative[k, -1])
    return np.minimum(items, D - 1)
