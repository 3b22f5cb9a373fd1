"""The method of moments as one object: fit, update, personalize, recommend, save."""

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.algorithm.decompose import (
    ComponentFit,
    DecomposeSettings,
    Stages,
    decompose,
)
from mom_pipeline.core.algorithm.decomposition import DecompositionName
from mom_pipeline.core.algorithm.recovery import ProjectionName
from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting, NotFitted
from mom_pipeline.core.evaluation.theorem1 import bounds_of, few_users
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.frames import FrameApi
from mom_pipeline.core.interactions import (
    RowsName,
    as_interactions,
    require_components,
    require_events,
    resized,
)
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.days import MomentSettings, fix_anchor, sum_users
from mom_pipeline.core.moments.estimators import Estimator, EstimatorName, own_rows
from mom_pipeline.core.moments.users import Users, UsersInMemory
from mom_pipeline.core.ranking.item_days import as_last_days
from mom_pipeline.core.ranking.learning import PENALTY, Learnt, Window, learn_weights
from mom_pipeline.core.ranking.memberships import Personalization, RuleName
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.score import (
    RankingName,
    RankingWeights,
    ranking_name,
    weights_from,
)
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Array, Csr, Float64

if TYPE_CHECKING:
    from sklearn.utils import Tags

Precision = Literal["auto", "single", "double"]
# Of the products with rows; None: single precision where the basis is large.
_DTYPES = {"auto": None, "single": np.float32, "double": np.float64}


@dataclass(eq=False)
class MethodOfMoments(FrameApi):
    """Components of users' tastes from the first three moments of their interactions.

    Takes the manners of scikit-learn, so that `clone`, `Pipeline` and `GridSearchCV` take the
    model; scikit-learn is no dependency.

    n_components: K.
    estimator: "paper" (plain sums), "unbiased" (whole counts: the error falls as 1/sqrt(N)) or
        "balanced" (every user weighs alike); `user_weight`, `item_scaling` replace its powers.
    rows: how the components read counts: "binary", "log" or "counts"; see `weighted_rows`.
        None: counts for "unbiased", else binary.
    personalization: "product" (paper), "tempered" or "em"; see `Personalization`.
    ranking: what `recommend` ranks by: "three-moment", or "components" alone, which is quicker.
    ranking_weights: learnt when None, but for `fixed_weights`, features that stay as given here.
    penalty: c of the learning; see `logit`.
    decomposition: "simultaneous" or "deflation", the paper's.  projection, cap_weights: how
        estimates become distributions; see `recover`.
    anchor_width: columns of the basis through which moments are summed; None for K. A wider one
        (1.25 K in the pipeline) keeps `update` close to a fresh fit for longer.
    tol, max_passes: when the search for the basis stops; see `top_eigenpairs`.
    delta: the probability with which Theorem 1's bounds may fail.
    seed: of every random number; the same model on any number of threads.
    """

    n_components: int = 100
    estimator: EstimatorName = "balanced"
    personalization: RuleName = "em"
    _: KW_ONLY
    ranking: RankingName = "three-moment"
    ranking_weights: RankingWeights | None = None
    fixed_weights: Mapping[str, tuple[float, float]] | None = None
    penalty: float = PENALTY
    rows: RowsName | None = None
    user_weight: float | None = None
    item_scaling: float | None = None
    decomposition: DecompositionName = "simultaneous"
    projection: ProjectionName = "clip"
    cap_weights: bool = True
    anchor_width: int | None = None
    temperature: float = 0.5
    em_steps: int = 5
    smoothing: float = 0.05
    tol: float = 1e-5
    max_passes: int = 10
    delta: float = 0.05
    precision: Precision = "auto"
    seed: int = 0
    _fitted: FittedModel | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        self.ranking = ranking_name(self.ranking)
        if self.precision not in _DTYPES:
            raise InvalidSetting(
                f"precision must be 'auto', 'single' or 'double', found {self.precision!r}"
            )
        if self.anchor_width is not None and self.anchor_width < self.n_components:
            raise InvalidSetting(
                f"anchor_width must be at least n_components = {self.n_components}, "
                f"found {self.anchor_width}"
            )
        # Made here so that a wrong setting is reported before any data is read.
        self._estimator()
        Personalization.from_settings(self)

    @classmethod
    def algorithm_1(cls, n_components: int = 100, *, seed: int = 0) -> Self:
        """Return the paper's Algorithm 1, steps 1 to 8, on binary rows.

        Deviations:
        (1) negative entries of O, of which the paper does not speak, are set to zero before
            step 8 divides by the sums, and a zero is the smallest positive number in logarithms;
        (2) `weights` is pi / sum(pi): P[h | u] is the same; pi = lambda^-2 itself is
            `weights * diagnostics["weight_sum"]`;
        (3) P[h | u] is computed from the normalised O, as in equation 8; the box of Algorithm 1
            writes the O of step 7, whose columns differ from it by a factor each;
        (4) beyond 600 items the eigenvectors of M2 come from a block Krylov method, up to `tol`,
            and W† v from M2 W v, which equals it for exact eigenvectors; from 1 million entries
            of the basis on products are in single precision;
        (5) step 5 is the robust power method of Lemma 2, 50 random starts of 100 steps each (the
            paper's experiments used a toolbox), and a lambda below 1e-6 counts as 1e-6;
        (6) K is lowered where M2 has fewer positive eigenvalues.
        """
        return cls(
            n_components,
            estimator="paper",
            rows="binary",
            decomposition="deflation",
            cap_weights=False,
            personalization="product",
            smoothing=0.0,
            ranking="components",
            seed=seed,
        )

    def fit(  # noqa: PLR0913 - scikit-learn passes y
        self,
        X: Any,
        y: None = None,
        *,
        held_out: Any = None,
        last_days: Any = None,
        exclude_seen: bool = True,
        previous: Self | None = None,
        anchor: Anchor | None = None,
        progress: Any = None,
    ) -> Self:
        """Fit to a users x items matrix of counts, sparse or dense. y: ignored.

        held_out: (N, D) later interactions of the same users, to learn the ranking weights from;
            without it the newest fifth of X is held out for that purpose, or a random one where no
            days are known.
        last_days: (N, D) the day of every entry's last event, above 0, such as
            `date.toordinal()`: the ranking then reads the trends of the items.
        exclude_seen: learn weights for lists without what the user had before.
        previous: an earlier model of the same items, whose components keep their numbers.
        anchor: that of an earlier fit, instead of a new one.
        progress: a callback(stage, share done) or a `rich.progress.Progress`.
        """
        X = as_interactions(X)
        require_events(X)
        days = None if last_days is None else as_last_days(last_days, X)
        users, stages = UsersInMemory(X, days), Stages(progress)
        with one_blas_thread():
            fit, learnt = self._fit_components(users, stages, previous, anchor), None
            if self.ranking == "three-moment" and self.ranking_weights is None:
                with stages.stage("ranking weights") as told:
                    learnt = self._learn(self._windows(X, held_out, days), exclude_seen, told)
            return self._fit_ranking(users, fit, learnt, stages)

    def fit_users(
        self, users: Users, *, previous: Self | None = None, progress: Any = None
    ) -> Self:
        """Fit to users visited in passes, such as shards, with ranking weights given or default."""
        stages = Stages(progress)
        with one_blas_thread():
            fit = self._fit_components(users, stages, previous)
            return self._fit_ranking(users, fit, None, stages)

    def update(
        self,
        *,
        removed: Any = None,
        added: Any = None,
        removed_days: Any = None,
        added_days: Any = None,
        progress: Any = None,
    ) -> Self:
        """Remove rows from what the model was fitted to, and add others, without the rest.

        A user who changed has the old row in `removed` and the new row in `added`. Moments,
        components, co-occurrences, EASE and the days of the items equal those of a fit through the
        same anchor, up to rounding; ranking weights and the low-pass part stay as they are.
        removed, added: (any, D) rows, or one row, (D,); `added` may have more items.
        removed_days, added_days: where the model was fitted with days; see `fit`.
        Raises InvalidInteractions for rows that cannot be among those of the model.
        """
        anchor, sums, ranking = self.fitted.anchor, self.fitted.sums, self.fitted.pair_ranking
        if anchor is None or sums is None:
            raise NotFitted("this model was stored without its moments; fit it again")
        come = _rows_of(added, self.fitted.n_items)
        gone = _rows_of(removed, come.shape[1])
        if gone.shape[1] > come.shape[1]:
            raise InvalidInteractions(
                f"the rows to remove have {gone.shape[1]} items, the model knows {come.shape[1]}"
            )
        days = _days_of(removed_days, gone), _days_of(added_days, come)
        stages = Stages(progress)
        with one_blas_thread():
            anchor = anchor.with_items(come.shape[1])
            with stages.stage("moments"):
                sums = sums.update(gone, come, anchor)
            _require_known_rows(sums)
            if ranking is not None:
                with stages.stage("pairs"):
                    ranking = ranking.update(gone, come, *days)
            components = decompose(
                anchor, sums, DecomposeSettings.from_settings(self), stages=stages
            )
        fit = ComponentFit(anchor, sums, components)
        self._fitted = self._fitted_model(fit, ranking, stages)
        return self

    def forget(self, rows: Any, *, last_days: Any = None) -> Self:
        """Take users out: the same model as without their rows, seen through its anchor."""
        return self.update(removed=rows, removed_days=last_days)

    @property
    def fitted(self) -> FittedModel:
        """Everything that the fit left behind; NotFitted before there was one."""
        if self._fitted is None:
            raise NotFitted("this model has no parameters yet; call fit first, or load one")
        return self._fitted

    @property
    def item_probs(self) -> Array:
        """O = P[item | component], (D, K): columns sum to 1, none negative."""
        return self.fitted.item_probs

    @property
    def weights(self) -> Float64:
        """Pi = P[component], (K,), sums to 1."""
        return self.fitted.weights

    @property
    def anchor(self) -> Anchor | None:
        """The basis that the moments were summed through."""
        return self.fitted.anchor

    @property
    def diagnostics(self) -> dict[str, Any]:
        """Numbers, lists and texts about the fit, with Theorem 1's bounds where it applies."""
        return self.fitted.diagnostics

    def transform(self, X: Any) -> Array:
        """Return P[component | user], (N, K), rows sum to 1; for users of the fit or others."""
        fitted = self.fitted
        return fitted.memberships(as_interactions(X, n_items=fitted.n_items))

    def fit_transform(self, X: Any, y: None = None, **fit_params: Any) -> Array:
        """Fit, and return P[component | user] of the same users, (N, K)."""
        return self.fit(X, y, **fit_params).transform(X)

    def personalize(self, X: Any) -> Array:
        """Return P[component | user]: the paper's word for `transform`."""
        return self.transform(X)

    def recommend(
        self,
        X: Any,
        n: int = 20,
        *,
        last_days: Any = None,
        exclude_seen: bool = True,
        ranking: RankingName | None = None,
    ) -> tuple[Array, Float64]:
        """Return the n best items of every row of X and their scores, (N, n) each.

        last_days: (N, D), their days, as in `fit`; without them all of a history counts alike.
        ranking: None for what was fitted.
        A short list is filled with -1 and a score of 0; an item without users is no candidate.
        """
        X = as_interactions(X, n_items=self.fitted.n_items)
        days = None if last_days is None else as_last_days(last_days, X)
        best = self.fitted.best(X, n, exclude_seen=exclude_seen, last_days=days, ranking=ranking)
        return best.items, best.scores

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one .npz file, whole or not at all."""
        settings = {**self.get_params(), "rows": self._rows}
        if self.ranking_weights is not None:
            settings["ranking_weights"] = asdict(self.ranking_weights)
        self.fitted.save(path, settings)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote; DamagedModel when its contents do not fit together."""
        fitted, settings = FittedModel.load(path)
        if settings["ranking_weights"] is not None:
            settings["ranking_weights"] = weights_from(settings["ranking_weights"])
        model = cls(**settings)
        model._fitted = fitted
        return model

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name. deep: there are no estimators below this one."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def set_params(self, **params: Any) -> Self:
        """Change settings, all of them or none; what was fitted stays until the next `fit`.

        Raises InvalidSetting for a name or a value that the constructor would refuse.
        """
        known = self.get_params()
        unknown = [name for name in params if name not in known]
        if unknown:
            raise InvalidSetting(
                f"unknown settings: {', '.join(unknown)}; the known ones are {', '.join(known)}"
            )
        checked = type(self)(**{**known, **params})
        for name in params:
            setattr(self, name, getattr(checked, name))
        return self

    @property
    def n_features_in_(self) -> int:
        """Items of the fit, under scikit-learn's name."""
        return self.fitted.n_items

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def __sklearn_tags__(self) -> "Tags":
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(sparse=True, positive_only=True),
        )

    @property
    def _rows(self) -> RowsName:
        return self.rows or own_rows(self.estimator)

    def _estimator(self) -> Estimator:
        return Estimator.from_name(
            self.estimator,
            user_weight=self.user_weight,
            item_scaling=self.item_scaling,
            rows=self._rows,
        )

    def _fit_components(
        self,
        users: Users,
        stages: Stages,
        previous: Self | None = None,
        anchor: Anchor | None = None,
    ) -> ComponentFit:
        """Run Algorithm 1: fix an anchor unless one is given, sum, decompose."""
        require_components(self.n_components, users.shape)
        settings = MomentSettings(
            estimator=self._estimator(),
            n_components=self.n_components,
            anchor_width=self.anchor_width or self.n_components,
            seed=self.seed,
            tol=self.tol,
            max_passes=self.max_passes,
            dtype=_DTYPES[self.precision],
        )
        earlier = None if previous is None else previous.fitted
        if anchor is None:
            with stages.stage("whitening"):
                start = None if earlier is None or earlier.anchor is None else earlier.anchor.basis
                anchor = fix_anchor(users, settings, start)
        with stages.stage("tensor"):
            sums = sum_users(users, anchor, settings)
        components = decompose(
            anchor,
            sums,
            DecomposeSettings.from_settings(self),
            earlier_item_probs=None if earlier is None else earlier.item_probs,
            stages=stages,
        )
        if anchor.components is None:
            anchor = replace(anchor, components=components.in_span)
        return ComponentFit(anchor, sums, components)

    def _fit_ranking(
        self, users: Users, fit: ComponentFit, learnt: Learnt | None, stages: Stages
    ) -> Self:
        """Complete a fit by what ranks, with the weights that were given, learnt or stated."""
        ranking = None
        if self.ranking == "three-moment":
            weights = self.ranking_weights or (self._stated if learnt is None else learnt.weights)
            with stages.stage("pairs"):
                ranking = PairRanking.from_users(users, weights, seed=self.seed)
        self._fitted, self._columns = self._fitted_model(fit, ranking, stages, learnt), None
        return self

    @property
    def _stated(self) -> RankingWeights:
        given: dict[str, Any] = dict(self.fixed_weights or {})
        return replace(RankingWeights(), **given)

    def _windows(self, X: Csr, held_out: Any, last_days: Csr | None) -> list[Window]:
        """Return what to learn the weights from; nothing where nothing can be hidden."""
        if held_out is not None:
            later = as_interactions(held_out, n_items=X.shape[1])
            window = Window(X, later, last_days)
            if not len(window.asked(1, np.random.default_rng(0), exclude_seen=False)[0]):
                raise InvalidInteractions(
                    "no user of held_out has both a history in the training data and an item"
                )
            return [window]
        hidden = Window.within(X, np.random.default_rng(self.seed), last_days)
        return [] if hidden is None else [hidden]

    def _learn(self, windows: list[Window], exclude_seen: bool, progress: Any) -> Learnt:
        return learn_weights(
            windows,
            exclude_seen=exclude_seen,
            penalty=self.penalty,
            stated=self._stated,
            fixed=self.fixed_weights or (),
            seed=self.seed,
            progress=progress,
        )

    def _fitted_model(
        self,
        fit: ComponentFit,
        pair_ranking: PairRanking | None,
        stages: Stages,
        learnt: Learnt | None = None,
    ) -> FittedModel:
        return FittedModel(
            item_probs=fit.components.item_probs,
            weights=fit.components.weights,
            popularity=fit.sums.first.popularity,
            anchor=fit.anchor,
            sums=fit.sums,
            personalization=Personalization.from_settings(self),
            pair_ranking=pair_ranking,
            rows=self._rows,
            diagnostics={
                **_diagnostics(fit, self.delta),
                "smoothing": self.smoothing,
                "ranking_weights": None if pair_ranking is None else asdict(pair_ranking.weights),
                "learnt": None if learnt is None else asdict(learnt),
                "seconds": dict(stages.seconds),
            },
        )


def _diagnostics(fit: ComponentFit, delta: float) -> dict[str, Any]:
    """Return figures about the components of a fit, as plain numbers, lists and texts."""
    anchor, sums, components = fit.anchor, fit.sums.first, fit.components
    whitening, K = components.whitening, components.whitening.n_components
    bounds = bounds_of(anchor.estimator, sums, whitening.eigenvalues, components.weights, delta)
    warnings = few_users(sums.n_users, K) if bounds is None else list(bounds.warnings)
    if whitening.requested > K:
        warnings.append(
            f"the second moment supports {K} components, {whitening.requested} were asked for: "
            "K was lowered"
        )
    return {
        "n_users": sums.n_users,
        "n_items": anchor.n_items,
        "n_components": K,
        "n_components_requested": whitening.requested,
        "eigenvalues": whitening.eigenvalues.tolist(),
        "passes": anchor.passes,
        "whitening_residual": anchor.residual,
        "lambdas": components.decomposition.lambdas.tolist(),
        "decomposition_residual": components.decomposition.residual,
        "negative_mass": components.recovery.negative_mass,
        "weight_sum": components.recovery.weight_sum,
        "bounds": None if bounds is None else asdict(bounds),
        "warnings": warnings,
    }


def _rows_of(X: Any, n_items: int) -> Csr:
    """Return rows as rows of n_items, or of more where they have more; none for None."""
    if X is None:
        return sparse.csr_array((0, n_items))
    X = X if sparse.issparse(X) else np.asarray(X)
    X = as_interactions(X.reshape(1, -1) if X.ndim == 1 else X)
    return resized(X, (X.shape[0], max(n_items, X.shape[1])))


def _days_of(last_days: Any, rows: Csr) -> Csr | None:
    """Return the days of the pairs of some rows; None where they are not known."""
    if last_days is None:
        return None if rows.nnz else rows
    return as_last_days(_rows_of(last_days, rows.shape[1]), rows)


def _require_known_rows(sums: AnchoredSums) -> None:
    """Raise InvalidInteractions when more was taken away than there was."""
    lacking = np.flatnonzero(sums.first.item_users < 0)
    if len(lacking):
        raise InvalidInteractions(
            f"more users of item {lacking[0]} were removed than the model has (and of "
            f"{len(lacking) - 1} other items); remove rows as they were when they were added"
        )
