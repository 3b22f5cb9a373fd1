"""The model on data frames: rows of (user, item) to lists and components; imports pandas late."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions, NotFitted
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.types import Array, Csr, Float64

if TYPE_CHECKING:
    import pandas as pd

# Of a model in a notebook: components, and items of each.
_SHOWN_COMPONENTS, _SHOWN_ITEMS = 10, 5


@dataclass(frozen=True)
class FrameColumns:
    """The columns of the frame that a model was fitted to. items: (D,) position -> id."""

    user: str
    item: str
    weight: str | None
    items: "pd.Index[Any]"


class FrameApi:
    """Data frames in and out, for a model of positions."""

    _columns: FrameColumns | None = None
    if TYPE_CHECKING:  # what the model brings
        _fitted: FittedModel | None
        fit: Callable[..., Self]
        get_params: Callable[[], dict[str, Any]]
        recommend: Callable[..., tuple[Array, Float64]]

        @property
        def fitted(self) -> FittedModel: ...

    def fit_frame(
        self,
        frame: "pd.DataFrame",
        *,
        user: str = "user",
        item: str = "item",
        weight: str | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit to rows of a user and an item, in any order; equal ones are added up.

        weight: column of counts; None: every row counts once.  fit_params: as for `fit`.
        `save` stores positions alone: keep the ids of a model that is to be loaded again.
        """
        import pandas as pd

        _require_columns(frame, user, item, weight)
        positions, items = pd.factorize(frame[item])
        columns = FrameColumns(user, item, weight, pd.Index(items))
        X, _ = _interactions(frame, columns, positions)
        self.fit(X, **fit_params)
        self._columns = columns
        return self

    def recommend_frame(
        self, frame: "pd.DataFrame", n: int = 20, *, exclude_seen: bool = True
    ) -> "pd.DataFrame":
        """The n best known items of every user of a frame: user, rank, item and score."""
        import pandas as pd

        columns = self._known_columns()
        _require_columns(frame, columns.user, columns.item, columns.weight)
        positions = columns.items.get_indexer(pd.Index(frame[columns.item]))
        X, users = _interactions(frame, columns, positions)
        ids, scores = self.recommend(X, n, exclude_seen=exclude_seen)
        rows, ranks = np.nonzero(ids >= 0)
        return pd.DataFrame(
            {
                columns.user: users[rows],
                "rank": ranks + 1,
                columns.item: columns.items[ids[rows, ranks]],
                "score": scores[rows, ranks],
            }
        )

    def components_frame(self, n: int = 10) -> "pd.DataFrame":
        """The n most probable items of every component, numbered from 1, with probabilities."""
        import pandas as pd

        columns, O = self._known_columns(), self.fitted.item_probs
        best = _best_items(O, n)
        ranks, components = (index.T.ravel() for index in np.indices(best.shape))
        return pd.DataFrame(
            {
                "component": components + 1,
                "weight": self.fitted.weights[components],
                "rank": ranks + 1,
                columns.item: columns.items[best.T.ravel()],
                "probability": O[best.T.ravel(), components],
            }
        )

    def _known_columns(self) -> FrameColumns:
        D = self.fitted.n_items
        if self._columns is None or len(self._columns.items) != D:
            raise NotFitted(
                f"this model knows {D} items by their positions, not by their ids; "
                "fit it by `fit_frame`"
            )
        return self._columns

    def _repr_html_(self) -> str:
        """The model in a notebook: what was set, and its heaviest components."""
        usual = type(self)().get_params()
        changed = [f"{k}={v!r}" for k, v in self.get_params().items() if v != usual[k]]
        head = f"<p><code>{type(self).__name__}({escape(', '.join(changed))})</code></p>"
        if self._fitted is None:
            return f"{head}<p>Not fitted.</p>"
        fitted = self._fitted
        ids: Any = range(fitted.n_items) if self._columns is None else self._columns.items
        best = _best_items(fitted.item_probs, _SHOWN_ITEMS)
        heaviest = np.argsort(-fitted.weights, kind="stable")[:_SHOWN_COMPONENTS]
        rows = "".join(
            _cells(k + 1, f"{fitted.weights[k]:.3f}", ", ".join(str(ids[i]) for i in best[:, k]))
            for k in heaviest.tolist()
        )
        K = len(fitted.weights)
        return (
            f"{head}<p>Fitted: {fitted.n_items:,} items, {K:,} components, {len(heaviest)} "
            "shown.</p><table><thead><tr><th>component</th><th>weight</th>"
            f"<th>most probable items</th></tr></thead><tbody>{rows}</tbody></table>"
        )


def _best_items(item_probs: Array, n: int) -> Array:
    """Return the positions of the n most probable items of each component, (n, K)."""
    return np.argsort(-item_probs, axis=0, kind="stable")[:n]


def _cells(*values: object) -> str:
    return f"<tr>{''.join(f'<td>{escape(str(value))}</td>' for value in values)}</tr>"


def _require_columns(frame: "pd.DataFrame", *names: str | None) -> None:
    """Raise InvalidInteractions for a column that is missing, and for ids that are."""
    missing = [repr(name) for name in names if name is not None and name not in frame.columns]
    if missing:
        raise InvalidInteractions(
            f"the frame has no column {', '.join(missing)}; "
            f"it has {', '.join(map(repr, frame.columns))}"
        )
    for name in names:
        if name is not None and (lacking := int(frame[name].isna().sum())):
            raise InvalidInteractions(
                f"column {name!r} is empty in {lacking} of {len(frame)} rows; drop those rows"
            )


def _interactions(
    frame: "pd.DataFrame", columns: FrameColumns, positions: Array
) -> tuple[Csr, "pd.Index[Any]"]:
    """Return users x items, and the id of each user. positions: of the items, -1 for unknown."""
    import pandas as pd

    who, users = pd.factorize(frame[columns.user])
    ones = np.ones(len(frame))
    counts = ones if columns.weight is None else frame[columns.weight].to_numpy(dtype=np.float64)
    known = positions >= 0
    shape = (len(users), len(columns.items))
    X = sparse.csr_array((counts[known], (who[known], positions[known])), shape=shape)
    return X, pd.Index(users)
