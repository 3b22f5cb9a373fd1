"""A model as it is served: the fit, the ids behind its positions, and everybody's history.

It answers without the warehouse: one folder holds all of it.

    model.npz       the fitted model
    people.npz      item ids, user ids, and the users' histories as sparse rows
    manifest.json   what it was made of, and the sha256 of both files
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import DamagedModel
from mom_pipeline.core.files import write_text
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.persistence import load_arrays, save_arrays
from mom_pipeline.core.types import Array, Csr

MODEL, PEOPLE, MANIFEST = "model.npz", "people.npz", "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What a version was made of.

    day: the model's day, ISO.  settings: of the model, by name.  data: fingerprint of the rows.
    parents: artifact name -> version.  metrics: name -> value on the evaluation days.
    """

    version: str
    day: str
    code_version: str
    data: str
    settings: dict[str, Any]
    parents: dict[str, str]
    metrics: dict[str, float]

    def named(self, version: str) -> Self:
        """Return the same manifest under another version."""
        return replace(self, version=version)


@dataclass(frozen=True)
class ServedModel:
    """Everything that an answer needs.

    item_ids: (D,) text.  user_ids: (N,) text.  histories: (N, D).
    """

    manifest: Manifest
    model: FittedModel
    item_ids: Array
    user_ids: Array
    histories: Csr

    @cached_property
    def item_positions(self) -> dict[str, int]:
        """Return the position of every item id."""
        return {str(item): place for place, item in enumerate(self.item_ids)}

    @cached_property
    def user_positions(self) -> dict[str, int]:
        """Return the position of every user id."""
        return {str(user): place for place, user in enumerate(self.user_ids)}

    def save(self, folder: Path) -> None:
        """Write the version to a folder; the manifest comes last and names the others."""
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save(folder / MODEL, self.manifest.settings)
        X = self.histories
        save_arrays(
            folder / PEOPLE,
            {"shape": list(X.shape)},
            {
                "item_ids": _as_bytes(self.item_ids),
                "item_ends": _ends(self.item_ids),
                "user_ids": _as_bytes(self.user_ids),
                "user_ends": _ends(self.user_ids),
                "data": X.data,
                "indices": X.indices,
                "indptr": X.indptr,
            },
        )
        sums = {name: _sha256(folder / name) for name in (MODEL, PEOPLE)}
        write_manifest(folder, self.manifest, sums)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a version; DamagedModel when a file is missing or not what the manifest says."""
        manifest, sums = read_manifest(folder)
        check_files(folder, sums)
        fitted, _ = FittedModel.load(folder / MODEL)
        header, arrays = load_arrays(folder / PEOPLE)
        histories: Csr = sparse.csr_array(
            (arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(header["shape"])
        )
        items, users = (_as_text(arrays[f"{k}_ids"], arrays[f"{k}_ends"]) for k in ("item", "user"))
        if histories.shape != (len(users), len(items)) or len(items) != fitted.n_items:
            raise DamagedModel(
                f"{folder} holds {len(users)} users and {len(items)} items, "
                f"histories of {histories.shape} and a model of {fitted.n_items} items"
            )
        return cls(manifest, fitted, items, users, histories)


def read_manifest(folder: Path) -> tuple[Manifest, dict[str, str]]:
    """Return the manifest alone, and the sha256 of the files that it names."""
    path = folder / MANIFEST
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        sums = values.pop("sha256")
        return Manifest(**values), {name: sums[name] for name in (MODEL, PEOPLE)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedModel(f"{path} is not a readable manifest: {error!r}") from error


def write_manifest(folder: Path, manifest: Manifest, sums: dict[str, str]) -> None:
    """Write the manifest beside the files that it names."""
    text = json.dumps({**asdict(manifest), "sha256": sums}, indent=2, sort_keys=True)
    write_text(folder / MANIFEST, text + "\n")


def check_files(folder: Path, sums: dict[str, str]) -> None:
    """Raise DamagedModel when a file is missing or has another sha256."""
    for name, expected in sums.items():
        path = folder / name
        if not path.exists() or _sha256(path) != expected:
            raise DamagedModel(f"{path} is missing or differs from its manifest")


def version_of(manifest: Manifest, sums: dict[str, str]) -> str:
    """Return the name of a version: its day, and 12 digits of the sha256 over its content."""
    content = json.dumps([asdict(manifest.named("")), sums], sort_keys=True)
    return f"{manifest.day}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def _as_bytes(ids: Array) -> Array:
    """Return the ids one after the other as UTF-8: one long id does not widen all of them."""
    return np.frombuffer("".join(map(str, ids)).encode(), dtype=np.uint8)


def _ends(ids: Array) -> Array:
    return np.cumsum([len(str(i).encode()) for i in ids], dtype=np.int64)


def _as_text(data: Array, ends: Array) -> Array:
    whole, starts = data.tobytes(), [0, *ends[:-1].tolist()]
    texts = [whole[a:b].decode() for a, b in zip(starts, ends.tolist(), strict=False)]
    return np.array(texts, dtype=object)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
