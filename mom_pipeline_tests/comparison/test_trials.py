import numpy as np
from scipy import sparse

from mom_pipeline.comparison.split import make_trial

# Items:            a  b  c  d  e     Nobody takes c before the test.
TRAIN = np.array([[2, 1, 0, 0, 0],  # takes c and b later
                  [0, 0, 0, 0, 0],  # a newcomer, takes a later
                  [0, 1, 0, 1, 0],  # takes b again, nothing new
                  [1, 0, 0, 0, 1],  # never comes back
                  [0, 0, 0, 1, 0]])  # fmt: skip
TEST = np.array([[0, 1, 1, 0, 0],
                 [1, 0, 0, 0, 0],
                 [0, 1, 0, 0, 0],
                 [0, 0, 0, 0, 0],
                 [1, 0, 0, 0, 1]])  # fmt: skip


def trial(**how):
    return make_trial(sparse.csr_array(TRAIN * 1.0), sparse.csr_array(TEST * 1.0), **how)


def test_users_with_a_history_and_something_new_are_asked_about():
    found = trial()
    np.testing.assert_array_equal(
        found.train.toarray(), [[2, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 1, 0]]
    )
    np.testing.assert_array_equal(found.users, [0, 3])
    # Columns a, b, d, e of the catalogue, then c, which cannot be found.
    np.testing.assert_array_equal(found.test.toarray(), [[0, 0, 0, 0, 1], [1, 0, 0, 1, 0]])
    assert (found.n_newcomers, found.n_dropped, found.n_unknown) == (1, 1, 1)


def test_seen_items_are_to_be_found_again_if_asked_for():
    found = trial(exclude_seen=False)
    np.testing.assert_array_equal(found.users, [0, 1, 3])
    np.testing.assert_array_equal(found.test.toarray()[:2], [[0, 1, 0, 0, 1], [0, 1, 0, 0, 0]])
    assert (found.n_newcomers, found.n_dropped) == (1, 0)


def test_later_users_and_items_lie_behind_the_matrix():
    small = sparse.csr_array(np.array([[1.0, 0], [0, 1]]))
    later = sparse.csr_array(np.array([[0, 1.0, 1], [0, 0, 0], [1, 0, 0]]))
    found = make_trial(small, later)
    np.testing.assert_array_equal(found.test.toarray(), [[0, 1, 1]])
    assert found.n_newcomers == 1
    assert found.n_unknown == 1


def test_a_sample_keeps_the_training_and_the_pairing():
    rng = np.random.default_rng(0)
    train = sparse.csr_array((rng.random((200, 30)) < 0.3) * 1.0)
    test = sparse.csr_array((rng.random((200, 30)) < 0.2) * 1.0)
    whole = make_trial(train, test)
    some = whole.sample(50, np.random.default_rng(1))
    assert len(some.users) == 50
    assert some.train is whole.train
    rows = np.searchsorted(whole.users, some.users)
    np.testing.assert_array_equal(some.test.toarray(), whole.test.toarray()[rows])
    assert whole.sample(500, rng) is whole
