"""Sums of shops: merged they are the fit on all rows, and a shop leaves to the last digit."""

import csv
import gzip
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import simulate
from mom_pipeline.core.algorithm.decompose import DecomposeSettings, decompose
from mom_pipeline.core.algorithm.decomposition import match_columns
from mom_pipeline.core.groups.shared import CannotShare, SharedSums, shared_sums
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.moments.days import MomentSettings, fix_anchor, width_for_days
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.persistence import save_arrays

ONLINE_RETAIL = Path(__file__).parents[3] / "../shared/data/online_retail.csv.gz"


def shop(X, ids, K, through=None, estimator="balanced"):
    """What a shop shares, and what it leaves out."""
    settings = MomentSettings(Estimator.from_name(estimator), K, width_for_days(K))
    anchor = fix_anchor(UsersInMemory(X), settings)
    return shared_sums(X, ids, anchor, DecomposeSettings(K), through)


def what_is_shared(X):
    """The rows without items of fewer than 20 users, of users with two items; straightforwardly."""
    X, before = X.toarray(), None
    while before != (X > 0).sum():
        before = (X > 0).sum()
        X[(X > 0).sum(axis=1) < 2] = 0
        X[:, (X > 0).sum(axis=0) < 20] = 0
    return sparse.csr_array(X[X.any(axis=1)])


def pooled(frame, shops):
    """The components of a fit on all rows through a frame. shops: rows and ids of each."""
    items = np.unique(np.concatenate([frame.items, *(ids for _, ids in shops)]))
    rows = []
    for X, ids in shops:
        wide = np.zeros((X.shape[0], len(items)))
        wide[:, np.searchsorted(items, ids)] = X.toarray()
        rows.append(what_is_shared(sparse.csr_array(wide)))
    X, anchor = sparse.csr_array(sparse.vstack(rows)), frame.anchor(items)
    return items, decompose(anchor, AnchoredSums.from_rows(X, anchor), frame.settings)


def names(prefix, n):
    return np.array([f"{prefix}{i}" for i in range(n)], dtype=object)


@pytest.fixture(scope="module")
def two():
    """Two shops of 120 common items and 30 of their own each, and their sums."""
    _, X = simulate(3_000, 180, 4, 12, seed=3)
    ids = np.concatenate([names("common", 120), names("ours", 30), names("theirs", 30)])
    ours, theirs = X[:1_400][:, :150], X[1_400:][:, np.r_[:120, 150:180]]
    shops = [(ours, ids[:150]), (theirs, ids[np.r_[:120, 150:180]])]
    one, _ = shop(*shops[0], 4)
    other, _ = shop(*shops[1], 4, one.frame)
    return shops, one, other


def assert_pooled(merged, shops, least):
    items, fit = pooled(merged.frame, shops)
    found = merged.components()
    own = np.isin(items, merged.items)
    assert not fit.item_probs[~own].any()
    ours, theirs = match_columns(found.item_probs, fit.item_probs[own])
    np.testing.assert_allclose(found.weights[ours], fit.weights[theirs], rtol=1e-6)
    np.testing.assert_allclose(found.item_probs[:, ours], fit.item_probs[own][:, theirs], atol=1e-8)
    assert merged.n_users >= least


def test_merged_is_the_fit_on_all_rows_through_the_common_basis(two):
    shops, one, other = two
    assert_pooled(one + other, shops, 2_900)
    alone = one.components().item_probs
    assert len(alone) < len((one + other).items)


def test_a_shop_leaves_to_the_last_digit(two, tmp_path):
    _, one, other = two
    (one + other).save(tmp_path / "both.npz")
    other.save(tmp_path / "other.npz")
    both, same = SharedSums.load(tmp_path / "both.npz"), SharedSums.load(tmp_path / "other.npz")
    for left, stayed in ((both - same, one), (both - one, other)):
        assert left.items.tolist() == stayed.items.tolist()
        assert left.shops == stayed.shops
        for name, array in stayed.sums.items():
            np.testing.assert_array_equal(left.sums[name], array)
    with pytest.raises(CannotShare, match="nobody would be left"):
        one - one
    with pytest.raises(CannotShare, match="cannot leave"):
        one - other
    with pytest.raises(CannotShare, match="in both"):
        both + one


def test_what_few_people_have_is_left_out_and_counted():
    _, X = simulate(1_000, 80, 3, 10, seed=1)
    X = X.tolil()
    X[:, 7] = 0
    X[:19, 7] = 1
    X[:, 8] = 0
    X[:20, 8] = 1
    X[500, :] = 0
    X[500, 3] = 4
    X = X.tocsr()
    ids = names("i", 80)
    ids[5] = ""  # an item of somebody who was erased
    made, left_out = shop(X, ids, 3)
    rows = what_is_shared(sparse.csr_array(X.toarray() * (ids != "")))
    has = made.items[made.sums["item_users"] > 0].tolist()
    assert "i8" in has
    assert "i7" not in has
    assert has == sorted(ids[np.asarray((rows > 0).sum(axis=0)).ravel() > 0])
    assert left_out["items"] == (X.sum(axis=0) > 0).sum() - len(has)
    assert left_out["users"] == 1_000 - rows.shape[0] == 1_000 - made.n_users
    G = (X > 0).astype(int).T @ (X > 0).astype(int)
    G = G.toarray() > 0
    kept = np.isin(ids, has)
    pairs = np.triu(G, 1)
    assert left_out["item_pairs"] == pairs.sum() - pairs[np.ix_(kept, kept)].sum()
    assert made.sums["item_users"][made.sums["item_users"] > 0].min() >= 20


def test_there_is_no_row_of_a_person_in_the_file(two, tmp_path):
    (_, _), one, _ = two
    one.save(tmp_path / "one.npz")
    with np.load(tmp_path / "one.npz", allow_pickle=False) as file:
        longest = max(file[name].shape[0] for name in file.files if name != "header.json")
    assert longest < one.n_users


def test_too_few_people_or_items_are_refused():
    _, X = simulate(199, 60, 2, 20, seed=2)
    with pytest.raises(CannotShare, match="199 people"):
        shop(X, names("i", 60), 2)
    _, X = simulate(400, 9, 5, 6, seed=2)
    with pytest.raises(CannotShare, match=r"\d items are too few for 5 groups"):
        shop(X, names("i", 9), 5)


@pytest.mark.parametrize(("K", "estimator"), [(5, "balanced"), (4, "unbiased"), (4, "balanced")])
def test_sums_of_other_settings_or_another_basis_are_not_added(two, K, estimator):
    [(X, ids), _], one, _ = two
    other, _ = shop(X[:900], ids, K, estimator=estimator)
    with pytest.raises(CannotShare, match="--through"):
        one + other
    through, _ = shop(X[:900], ids, K, one.frame, estimator)
    assert (one + through).components().weights.shape == (4,)


def test_a_grid_that_is_full_is_said(two):
    _, one, other = two
    steps = {**one.frame.steps, "triples": one.frame.steps["triples"] / 2**10}
    frame = replace(one.frame, steps=steps)
    with pytest.raises(CannotShare, match="triples of so many shops"):
        replace(one, frame=frame) + replace(other, frame=frame)


def test_another_file_or_version_is_a_sentence(two, tmp_path):
    _, one, _ = two
    path = tmp_path / "file.npz"
    save_arrays(path, {"kind": "sums to share, 2"}, {})
    with pytest.raises(CannotShare, match="sums to share, 2"):
        SharedSums.load(path)
    one.save(path)
    whole = path.read_bytes()
    damaged = [b"", b"PK", whole[:-200], whole[:1_000] + b"\x00" + whole[1_001:]]
    for bad in damaged:
        path.write_bytes(bad)
        with pytest.raises(CannotShare, match="exported again"):
            SharedSums.load(path)


@pytest.mark.skipif(not ONLINE_RETAIL.exists(), reason=f"{ONLINE_RETAIL} is not on this machine")
def test_two_halves_of_online_retail():
    """By hash of the customer, each with its own catalogue of what its customers took."""
    with gzip.open(ONLINE_RETAIL, "rt", encoding="utf-8") as source:
        taken = {
            (row["CustomerID"], row["StockCode"])
            for row in csv.DictReader(source)
            if row["CustomerID"] and not row["InvoiceNo"].startswith("C")
        }
    shops = []
    for half in (0, 1):
        own = [pair for pair in taken if zlib.crc32(pair[0].encode()) % 2 == half]
        users, rows = np.unique([user for user, _ in own], return_inverse=True)
        ids, columns = np.unique([item for _, item in own], return_inverse=True)
        X = sparse.csr_array((np.ones(len(own)), (rows, columns)), shape=(len(users), len(ids)))
        shops.append((X, ids.astype(object)))
    one, left_out = shop(*shops[0], 12)
    other, _ = shop(*shops[1], 12, one.frame)
    assert_pooled(one + other, shops, 4_000)
    assert left_out["items"] > 500
    left = (one + other) - one
    assert all(np.array_equal(left.sums[name], array) for name, array in other.sums.items())
