"""Named arrays and a JSON header in one .npz file, without pickle."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.core.errors import DamagedModel
from mom_pipeline.core.files import writing
from mom_pipeline.core.types import Array

_FORMAT = "mom-pipeline model"
_VERSION = 2


def save_arrays(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, Array]
) -> None:
    """Write the arrays and the header to one file, whole or not at all."""
    described = {
        "format": _FORMAT,
        "version": _VERSION,
        "header": header,
        "arrays": {name: [str(a.dtype), list(a.shape)] for name, a in arrays.items()},
    }
    text = np.frombuffer(json.dumps(described).encode(), dtype=np.uint8)
    with writing(Path(path)) as file:
        np.savez(file, allow_pickle=False, **{"header.json": text}, **arrays)


def load_arrays(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read back what `save_arrays` wrote.

    Raises DamagedModel when the file is no model, is cut short, or its arrays are not those
    that the header lists.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            described = json.loads(file["header.json"].tobytes())
            arrays = {name: file[name] for name in file.files if name != "header.json"}
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DamagedModel(f"{path} is not a readable model file: {error}") from error
    if described.get("format") != _FORMAT or described.get("version") != _VERSION:
        raise DamagedModel(
            f"{path} holds {described.get('format')!r} version {described.get('version')!r}; "
            f"expected {_FORMAT!r} version {_VERSION}; fit and save it again"
        )
    held = {name: [str(a.dtype), list(a.shape)] for name, a in arrays.items()}
    if held != described["arrays"]:
        raise DamagedModel(f"{path} lists arrays {described['arrays']} but holds {held}")
    return described["header"], arrays
