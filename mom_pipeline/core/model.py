"""The method of moments as one object: fit, personalize, recommend, save."""

import os
from dataclasses import KW_ONLY, asdict, dataclass, field, fields
from typing import Any, Literal, Self

import numpy as np

from mom_pipeline.core.algorithm.decompose import ClassFit, ClassSettings, fit_classes, in_order_of
from mom_pipeline.core.algorithm.decomposition import DecompositionName
from mom_pipeline.core.algorithm.recovery import ProjectionName
from mom_pipeline.core.diagnostics import describe_fit
from mom_pipeline.core.errors import InvalidSetting, NotFitted
from mom_pipeline.core.fitted import FittedModel, PairRanking
from mom_pipeline.core.interactions import as_interactions, require_components, require_events
from mom_pipeline.core.linear_algebra.eigenpairs import working_precision
from mom_pipeline.core.moments.sums import Estimator, EstimatorName
from mom_pipeline.core.moments.users import Users, UsersInMemory
from mom_pipeline.core.progress import Stages
from mom_pipeline.core.ranking.bounded_lists import BoundedLists
from mom_pipeline.core.ranking.choose import Choice, HeldOut, choose_weights, given_split, hold_out
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.memberships import Personalization, RuleName
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.ranking.topn import Scorer, recommend_top
from mom_pipeline.core.types import Array, Csr, Float64

RankingName = Literal["components", "classes", "three-moment"]
Precision = Literal["auto", "single", "double"]

# The low-pass part takes as many eigenvectors as are worth asking for and fit in memory, and at
# most a quarter of them all: through all of them a history is seen as it is.
_LOW_PASS_RANK = 512
_LOW_PASS_SIZE = 32_000_000


@dataclass(eq=False)
class MethodOfMoments:
    """Latent classes of users from the first three moments of their interactions.

    n_components: K, the number of classes.
    estimator: "paper" (Algorithm 1 to the letter), "unbiased" (counts: the error falls as
        1/sqrt(N)) or "balanced" (binary logs: the best ranking). `user_weight` and
        `item_scaling` replace the powers that come with the name; see `Estimator`.
    personalization: "product" (paper), "tempered" or "em", with `temperature`, `em_steps` and
        `smoothing`; see `Personalization`.
    ranking: "three-moment" prepares both rankings; "classes" skips the pairs, which is quicker.
    ranking_weights: of the three-moment ranking; chosen on held-out items when None.
    tol, max_passes: when the whitening stops; see `top_eigenpairs`.
    delta: the probability with which Theorem 1's bounds may fail.
    seed: of every random number; the same seed and data give the same model.
    """

    n_components: int = 100
    estimator: EstimatorName = "balanced"
    personalization: RuleName = "em"
    _: KW_ONLY
    ranking: RankingName = "three-moment"
    ranking_weights: RankingWeights | None = None
    user_weight: float | None = None
    item_scaling: float | None = None
    decomposition: DecompositionName = "simultaneous"
    projection: ProjectionName = "clip"
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
        if self.ranking not in ("components", "classes", "three-moment"):
            raise InvalidSetting(
                f"ranking must be 'components' or 'three-moment', found {self.ranking!r}"
            )
        if self.precision not in ("auto", "single", "double"):
            raise InvalidSetting(
                f"precision must be 'auto', 'single' or 'double', found {self.precision!r}"
            )
        # Made here so that a wrong setting is reported before any data is read.
        self._class_settings()
        self._personalization()

    def fit(
        self,
        X: Any,
        *,
        held_out: Any = None,
        exclude_seen: bool = True,
        previous: Self | None = None,
        progress: Any = None,
    ) -> Self:
        """Fit to a users x items matrix of counts, any scipy sparse format or a dense array.

        held_out: (N, D) later interactions of the same users, to choose the ranking weights
            on; without it a part of X is hidden for that purpose, and used again afterwards.
        exclude_seen: choose them for lists without what the user had before.
        previous: an earlier model of the same items, to start from and to keep the identity
            of its components.
        progress: a callback(stage, share done) or a `rich.progress.Progress`.
        """
        X = as_interactions(X)
        require_events(X)
        stages = Stages(progress)
        fit = self._fit_classes(UsersInMemory(X), stages, previous)
        ranking, choice = None, None
        if self.ranking == "three-moment":
            split = self._split(X, held_out, exclude_seen)
            ranking, choice = self._fit_ranking(X, fit, split, stages)
        self._fitted = self._fitted_model(fit, ranking, stages, choice)
        return self

    def fit_users(
        self, users: Users, *, previous: Self | None = None, progress: Any = None
    ) -> Self:
        """Fit the classes to users who are visited in passes, such as shards of them.

        previous, progress: as for `fit`.
        """
        if self.ranking != "classes":
            raise InvalidSetting(
                "the three-moment ranking needs all rows in memory; "
                "fit users in shards with ranking='classes'"
            )
        stages = Stages(progress)
        fit = self._fit_classes(users, stages, previous)
        self._fitted = self._fitted_model(fit, None, stages)
        return self

    @property
    def fitted(self) -> FittedModel:
        """Everything that the fit left behind; NotFitted before there was one."""
        if self._fitted is None:
            raise NotFitted("this model has no parameters yet; call fit first, or load one")
        return self._fitted

    @property
    def item_probs(self) -> Array:
        """O = P[item | class], (D, K): columns sum to 1, none negative."""
        return self.fitted.item_probs

    @property
    def weights(self) -> Float64:
        """Pi = P[class], (K,), sums to 1."""
        return self.fitted.weights

    @property
    def diagnostics(self) -> dict[str, Any]:
        """What the fit found out about itself: plain numbers, lists and texts."""
        return self.fitted.diagnostics

    def personalize(self, X: Any) -> Array:
        """P[class | user], (N, K), rows sum to 1; for any users, seen in the fit or not."""
        fitted = self.fitted
        return fitted.memberships(as_interactions(X, n_items=fitted.n_items))

    def recommend(
        self,
        X: Any,
        n: int = 20,
        *,
        exclude_seen: bool = True,
        ranking: RankingName = "classes",
    ) -> tuple[Array, Float64]:
        """Return the n best items of every row of X and their scores, (N, n) each.

        Lists with fewer candidates are filled with -1 and a score of 0.
        """
        fitted = self.fitted
        X = as_interactions(X, n_items=fitted.n_items)
        if ranking != "classes":
            return recommend_top(X, self.scorer(ranking), n, exclude_seen=exclude_seen)
        lists = BoundedLists.of(fitted.item_probs)
        ids, scores = lists.best(X, fitted.memberships(X), n, exclude_seen=exclude_seen)
        return ids.astype(np.int64), scores.astype(np.float64)

    def scorer(self, ranking: RankingName = "classes") -> Scorer:
        """Return what `recommend` ranks by: a block of histories to scores of all items."""
        fitted = self.fitted
        if ranking not in ("classes", "three-moment"):
            raise InvalidSetting(f"ranking must be 'classes' or 'three-moment', found {ranking!r}")
        return fitted.class_scores if ranking == "classes" else fitted.three_moment_scores

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one .npz file, whole or not at all."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        if self.ranking_weights is not None:
            settings["ranking_weights"] = asdict(self.ranking_weights)
        self.fitted.save(path, settings)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote; DamagedModel when its contents do not fit together."""
        fitted, settings = FittedModel.load(path)
        if settings["ranking_weights"] is not None:
            settings["ranking_weights"] = RankingWeights(**settings["ranking_weights"])
        model = cls(**settings)
        model._fitted = fitted
        return model

    def _class_settings(self) -> ClassSettings:
        return ClassSettings(
            n_components=self.n_components,
            estimator=Estimator.of(
                self.estimator, user_weight=self.user_weight, item_scaling=self.item_scaling
            ),
            decomposition=self.decomposition,
            projection=self.projection,
            tol=self.tol,
            max_passes=self.max_passes,
        )

    def _personalization(self) -> Personalization:
        return Personalization(
            self.personalization, self.temperature, self.em_steps, self.smoothing
        )

    def _dtype(self, n_items: int) -> type[np.floating]:
        if self.precision == "auto":
            return working_precision(self.n_components, n_items)
        return np.float32 if self.precision == "single" else np.float64

    def _fit_classes(self, users: Users, stages: Stages, previous: Self | None = None) -> ClassFit:
        require_components(self.n_components, users.shape)
        earlier = None if previous is None else previous.fitted
        fit = fit_classes(
            users,
            self._class_settings(),
            np.random.default_rng(self.seed),
            stages,
            dtype=self._dtype(users.shape[1]),
            warm_start=None if earlier is None else earlier.basis,
        )
        return fit if earlier is None else in_order_of(fit, earlier.item_probs)

    def _fit_ranking(
        self, X: Csr, fit: ClassFit, split: HeldOut | None, stages: Stages
    ) -> tuple[PairRanking, Choice | None]:
        """Prepare the three-moment ranking; choose its weights where there is a split for it."""
        choice = None if split is None else self._choose_weights(X, fit, split, stages)
        weights = self.ranking_weights or RankingWeights()
        if choice is not None:
            weights = choice.weights
        with stages.stage("low-pass part"):
            low_pass = self._low_pass(X, weights.user_exponent)
        return PairRanking(X, low_pass, weights), choice

    def _split(self, X: Csr, held_out: Any, exclude_seen: bool) -> HeldOut | None:
        """What to choose the weights on; None where they are given, or nothing can be hidden."""
        rng = np.random.default_rng(self.seed)
        if self.ranking_weights is not None:
            return None
        if held_out is None:
            return hold_out(X, rng, exclude_seen=exclude_seen)
        later = as_interactions(held_out, n_items=X.shape[1])
        return given_split(X, later, rng, exclude_seen=exclude_seen)

    def _choose_weights(self, X: Csr, fit: ClassFit, split: HeldOut, stages: Stages) -> Choice:
        with stages.stage("fit without the held-out items"):
            if split.train is not X:
                # Not from the fit at hand: its vectors would remember the hidden items.
                fit = self._fit_classes(UsersInMemory(split.train), Stages())
            low_pass = {e: self._low_pass(split.train, e) for e in split.user_exponents}
        with stages.stage("ranking weights") as progress:
            classes = self._fitted_model(fit, None, stages).class_scores
            return choose_weights(split, low_pass, classes, progress)

    def _low_pass(self, X: Csr, user_exponent: float) -> LowPass:
        return LowPass.of(
            X,
            max(1, min(_LOW_PASS_RANK, min(X.shape) // 4, _LOW_PASS_SIZE // X.shape[1])),
            np.random.default_rng(self.seed),
            user_exponent=user_exponent,
            dtype=self._dtype(X.shape[1]),
            tol=self.tol,
            max_passes=self.max_passes,
        )

    def _fitted_model(
        self,
        fit: ClassFit,
        pair_ranking: PairRanking | None,
        stages: Stages,
        choice: Choice | None = None,
    ) -> FittedModel:
        return FittedModel(
            item_probs=fit.recovery.item_probs,
            weights=fit.recovery.weights,
            popularity=fit.sums.item_events / fit.sums.item_events.sum(),
            basis=fit.eigenpairs.vectors,
            personalization=self._personalization(),
            pair_ranking=pair_ranking,
            diagnostics=describe_fit(
                fit,
                stages.seconds,
                delta=self.delta,
                smoothing=self.smoothing,
                ranking_weights=None if pair_ranking is None else pair_ranking.weights,
                choice=choice,
            ),
        )
