"""`ServedModel`: the fit, the ids of its positions, and the history of every user.

It answers without the warehouse: one folder holds all of it.

    model.npz       the fitted model
    people.npz      item ids, user ids, and the users' histories as sparse rows with their days
    figures.json    how the fit came about, for the report and the explorer
    manifest.json   what it was made of, and the sha256 of every file
"""

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict
from scipy import sparse

from mom_pipeline.artifacts.versions import check_files, read_manifest
from mom_pipeline.core.errors import DamagedModel, InvalidInteractions
from mom_pipeline.core.evaluation.theorem1 import Bounds
from mom_pipeline.core.files import write_text
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.persistence import load_arrays, save_arrays
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.errors import DamagedArtifact

MODEL, PEOPLE, FIGURES = "model.npz", "people.npz", "figures.json"
# Days that a model remembers.
TREND_DAYS = 60
_OF_THE_STORE = ("format", "sha256")


class FitFigures(BaseModel):
    """The fit of one day."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    day: str
    full: bool
    changed_users: int
    users: int
    captured_share: float  # of the second moment, by the basis
    drift: tuple[float, ...]  # (K,) total variation since the day before
    agreement: tuple[float, ...]  # (K,) cosine of two halves of the users
    mean_agreement: float  # weighted by pi
    chance: float = 0.0  # what halves with nothing in common agree on


class ModelFigures(BaseModel):
    """The fit of a model."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    spectrum: tuple[float, ...]  # eigenvalues of M2 inside the span, largest first
    residual: float
    weight_sum: float  # of lambda^-2
    negative_mass: float
    bounds: Bounds | None  # None where Theorem 1 is about another model
    days: tuple[FitFigures, ...]  # up to its own, which is the last


@dataclass(frozen=True)
class Manifest:
    """What a version was made of. data: fingerprint of the rows.  parents: artifact -> version."""

    version: str
    day: str
    code_version: str
    data: str
    settings: dict[str, Any]
    parents: dict[str, str]
    metrics: dict[str, float]

    @property
    def facts(self) -> dict[str, Any]:
        """Everything but the version, which is made from the rest."""
        return {name: value for name, value in asdict(self).items() if name != "version"}

    @classmethod
    def read(cls, folder: Path, *, check: bool = False) -> Self:
        """The manifest of a version, or DamagedModel. check: compare every file with its sha256."""
        try:
            values = read_manifest(folder)
            if check:
                check_files(folder, values)
            facts = {name: value for name, value in values.items() if name not in _OF_THE_STORE}
            return cls(version=folder.name, **facts)
        except (DamagedArtifact, TypeError) as error:
            raise DamagedModel(str(error)) from error


@dataclass(frozen=True)
class ServedModel:
    """Everything that an answer needs."""

    manifest: Manifest
    model: FittedModel
    item_ids: Array  # (D,)
    user_ids: Array  # (N,)
    histories: Csr  # (N, D) counts
    last_days: Csr  # (N, D) when
    figures: ModelFigures | None = None

    @cached_property
    def item_positions(self) -> dict[str, int]:
        return {str(item): position for position, item in enumerate(self.item_ids)}

    @cached_property
    def user_positions(self) -> dict[str, int]:
        return {str(user): position for position, user in enumerate(self.user_ids)}

    def history(self, user: str) -> tuple[Array, Array, Array] | None:
        """The items of a user, how often and when last, (n,) each; None for an unknown user."""
        position = self.user_positions.get(user)
        if position is None:
            return None
        X = self.histories
        own = slice(int(X.indptr[position]), int(X.indptr[position + 1]))
        return X.indices[own], X.data[own], self.last_days.data[own]

    def write_files(self, folder: Path, *, deflated: bool = True) -> None:
        """Write everything but the manifest to a folder. deflated: False for mapped histories."""
        # What an update would need stays with the artifacts of the day.
        self.model.answering().save(folder / MODEL, self.manifest.settings)
        if self.figures is not None:
            write_text(folder / FIGURES, self.figures.model_dump_json())
        X = self.histories
        days = self.last_days.data.astype(np.uint32)
        arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "days": days}
        for kind, ids in (("item", self.item_ids), ("user", self.user_ids)):
            # One after the other as UTF-8: one long id does not widen all of them.
            texts = [str(name).encode() for name in ids]
            arrays[f"{kind}_ids"] = np.frombuffer(b"".join(texts), dtype=np.uint8)
            arrays[f"{kind}_ends"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
        save_arrays(folder / PEOPLE, {"shape": list(X.shape)}, arrays, deflated=deflated)

    @classmethod
    def load(cls, folder: Path, *, mapped: bool = False) -> Self:
        """Read a version; DamagedModel when a file is missing or not what the manifest says."""
        manifest = Manifest.read(folder, check=True)
        try:
            fitted, _ = FittedModel.load(folder / MODEL)
            header, arrays = load_arrays(folder / PEOPLE, mapped=mapped)
            path, figures = folder / FIGURES, None
            if path.exists():
                figures = ModelFigures.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:  # removed by another process while it was read
            raise DamagedModel(f"{folder} cannot be read: {error}") from error
        histories, last_days = (
            sparse.csr_array((arrays[name], *index), shape=tuple(header["shape"]))
            for index in [(arrays["indices"], arrays["indptr"])]
            for name in ("data", "days")
        )
        items, users = (_texts(arrays[f"{k}_ids"], arrays[f"{k}_ends"]) for k in ("item", "user"))
        if histories.shape != (len(users), len(items)) or len(items) != fitted.n_items:
            raise DamagedModel(
                f"{folder} holds {len(users)} users and {len(items)} items, "
                f"histories of {histories.shape} and a model of {fitted.n_items} items"
            )
        return cls(manifest, fitted, items, users, histories, last_days, figures)

    @cached_property
    def content_hash(self) -> str:
        """sha256 of all that answers rest on; the numbers of components do not matter."""
        model, ranking = self.model, self.model.pair_ranking
        order = np.lexsort((model.item_probs[0], model.weights))
        X, days = self.histories, self.last_days.data
        arrays = {"O": model.item_probs[:, order], "pi": model.weights[order]}
        arrays |= {"data": X.data, "items": X.indices, "ends": X.indptr, "days": days}
        arrays |= {} if ranking is None else ranking.as_arrays()
        weights = None if ranking is None else asdict(ranking.weights)
        texts = [*map(str, self.item_ids), "", *map(str, self.user_ids)]
        digest = hashlib.sha256(json.dumps([weights, texts]).encode())
        for name, array in sorted(arrays.items()):
            digest.update(f"{name} {array.shape}".encode())
            digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    def without_users(self, user_ids: Collection[str]) -> Self | None:
        """The model without some users' ids, histories and pairs; None if all are unknown.

        Items that nobody else has lose their name, and no list holds them. Components and weights
        stay as they were fitted: they come from sums over everyone, and name nobody.
        """
        gone_ids = frozenset(user_ids)
        own = np.array([str(user) in gone_ids for user in self.user_ids], dtype=bool)
        if not own.any():
            return None
        model, ranking = self.model, self.model.pair_ranking
        if ranking is not None:
            try:
                nobody, nothing = self.histories[:0], self.last_days[:0]
                gone = self.histories[own], self.last_days[own]
                ranking = ranking.update(gone[0], nobody, gone[1], nothing)
            except InvalidInteractions as error:
                raise DamagedModel("the pairs do not hold the history of a user") from error
            model = replace(model, pair_ranking=ranking)
        histories = sparse.csr_array(self.histories[~own])
        is_left = np.bincount(histories.indices, minlength=histories.shape[1]) > 0
        popularity = np.where(is_left, model.popularity, 0.0)
        return replace(
            self,
            model=replace(model, popularity=popularity / (popularity.sum() or 1.0)),
            item_ids=np.where(is_left, self.item_ids, ""),
            user_ids=self.user_ids[~own],
            histories=histories,
            last_days=sparse.csr_array(self.last_days[~own]),
        )


def _texts(data: Array, ends: Array) -> Array:
    """The ids that `write_files` wrote one after the other."""
    whole, stops = data.tobytes(), ends.tolist()
    texts = [whole[a:b].decode() for a, b in zip([0, *stops], stops, strict=False)]
    return np.array(texts, dtype=object)
