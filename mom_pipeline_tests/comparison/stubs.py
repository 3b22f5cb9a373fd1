"""Small methods for the tests of a comparison, good ones and bad ones."""

import os
import time
from pathlib import Path

import numpy as np

from mom_pipeline.comparison.methods.interface import Fitted, Method
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.threads import available_cores


def _popular(X, seed, sign=1, **settings):
    taken = np.bincount(X.indices, minlength=X.shape[1]).astype(float)
    notes = {"cores": available_cores()}
    return Fitted(lambda users: np.tile(sign * taken, (len(users), 1)), notes)


def _pairs(X, seed):
    X = X.astype(bool).astype(float)
    together = (X.T @ X).toarray()
    return Fitted(lambda users: X[users] @ together)


def _sleeps(X, seed, asleep=1, **settings):
    time.sleep(600 * asleep)
    return _popular(X, seed, **settings)


def _greedy(X, seed, hunger):
    np.ones(4_000_000_000 // 8 * hunger)
    return _popular(X, seed)


def _crashes(X, seed):
    os.abort()


def _raises(X, seed):
    raise ZeroDivisionError("nothing to divide by")


def _refuses(X, seed):
    raise MomError("this data cannot be used; add days")


def _lacks(X, seed):
    import a_library_that_nobody_has  # noqa: F401


def _writes_pid(X, seed, path):
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)


METHODS = {
    method.name: method
    for method in (
        Method("popular", "Popular", _popular, ({"sign": -1}, {"sign": 1})),
        Method("pairs", "Pairs", _pairs),
        Method("sleeps", "Sleeps", _sleeps),
        Method("tires", "Tires", _sleeps, ({"asleep": 0, "sign": -1}, {"asleep": 0}, {})),
        Method("greedy", "Greedy", _greedy, ({"hunger": 1}, {"hunger": 2})),
        Method("crashes", "Crashes", _crashes),
        Method("raises", "Raises", _raises),
        Method("refuses", "Refuses", _refuses),
        Method("lacks", "Lacks", _lacks),
        Method("plain", "Plain", _popular),
        Method("writes_pid", "Writes its id", _writes_pid),
        Method("sized", "Sized", _popular, size="n_components"),
    )
}
ALL = tuple(METHODS)
