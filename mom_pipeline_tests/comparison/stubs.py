"""Small methods for the tests of a comparison, good ones and bad ones."""

import os
import time
from pathlib import Path

import numpy as np

from mom_pipeline.comparison.methods.interface import Fitted, Method
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.threads import available_cores


def _popular(X, settings, seed):
    taken = np.bincount(X.indices, minlength=X.shape[1]).astype(float)
    sign = settings.get("sign", 1)
    return Fitted(lambda rows: np.tile(sign * taken, (rows.shape[0], 1)), {"items": X.shape[1]})


def _pairs(X, settings, seed):
    X = X.astype(bool).astype(float)
    together = (X.T @ X).toarray()
    return Fitted(lambda rows: rows.astype(bool).astype(float) @ together)


def _random(X, settings, seed):
    scores = np.random.default_rng(seed).random(X.shape[1])
    return Fitted(lambda rows: np.tile(scores, (rows.shape[0], 1)))


def _sleeps(X, settings, seed):
    time.sleep(600 * settings.get("asleep", 1))
    return _popular(X, settings, seed)


def _greedy(X, settings, seed):
    np.ones(4_000_000_000 // 8 * settings.get("hunger", 1))
    return _popular(X, settings, seed)


def _crashes(X, settings, seed):
    os.abort()


def _raises(X, settings, seed):
    raise ZeroDivisionError("nothing to divide by")


def _refuses(X, settings, seed):
    raise MomError("this data cannot be used; add days")


def _lacks(X, settings, seed):
    import a_library_that_nobody_has  # noqa: F401


def _sized(X, settings, seed):
    return _popular(X, {}, seed)


def _cores(X, settings, seed):
    return Fitted(_popular(X, {}, seed).scores, {"cores": available_cores()})


def _writes_pid(X, settings, seed):
    Path(settings["path"]).write_text(str(os.getpid()))
    time.sleep(600)


METHODS = {
    method.name: method
    for method in (
        Method("popular", "Popular", _popular, ({"sign": -1}, {"sign": 1})),
        Method("pairs", "Pairs", _pairs),
        Method("random", "Random", _random),
        Method("sleeps", "Sleeps", _sleeps),
        Method("tires", "Tires", _sleeps, ({"asleep": 0, "sign": -1}, {"asleep": 0}, {})),
        Method("greedy", "Greedy", _greedy, ({"hunger": 1}, {"hunger": 2})),
        Method("crashes", "Crashes", _crashes),
        Method("raises", "Raises", _raises),
        Method("refuses", "Refuses", _refuses),
        Method("lacks", "Lacks", _lacks),
        Method("plain", "Plain", _popular),
        Method("cores", "Cores", _cores),
        Method("writes_pid", "Writes its id", _writes_pid),
        Method("sized", "Sized", _sized, ({},), "n_components"),
        Method("listing", "Listing", _sized, lists="lists"),
    )
}
