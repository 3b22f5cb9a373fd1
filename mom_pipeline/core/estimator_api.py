"""The model in scikit-learn's manners: parameters, tags, `fit_transform`.

`clone`, `Pipeline` and `GridSearchCV` take the model by these methods alone. scikit-learn is
imported where it hands over an object of its own, and is no dependency.
"""

from collections.abc import Callable
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.types import Array

if TYPE_CHECKING:
    from sklearn.utils import Tags


class EstimatorApi:
    """What scikit-learn asks of an estimator, for a data class whose fields are its settings."""

    if TYPE_CHECKING:  # what the model brings
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
        _fitted: FittedModel | None
        fit: Callable[..., Self]
        transform: Callable[[Any], Array]

        @property
        def fitted(self) -> FittedModel: ...

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

    def fit_transform(self, X: Any, y: None = None, **fit_params: Any) -> Array:
        """Fit, and return P[component | user] of the same users, (N, K)."""
        return self.fit(X, y, **fit_params).transform(X)

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
