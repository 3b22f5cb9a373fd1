"""Named arrays and a JSON header in one .npz file, without pickle."""

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from mom_pipeline.core.errors import DamagedModel, ModelOfOtherVersion
from mom_pipeline.core.files import writing
from mom_pipeline.core.types import Array

_FORMAT = "mom-pipeline model"
_VERSION = 5
_ZIP_HEADER = 30
# A member is deflated where that saves a quarter of a sample of it: counts do, most others do not.
_SAMPLE_BYTES, _WORTH_IT, _FASTEST = 65_536, 0.75, 1


def write_npz(file: IO[bytes], arrays: Mapping[str, Array], *, deflated: bool = True) -> None:
    """Write arrays as `np.load` reads them, the same bytes for the same arrays."""
    with zipfile.ZipFile(file, "w", compresslevel=_FASTEST) as members:
        for name, array in arrays.items():
            shrinks = deflated and _is_shrinkable(array)
            members.compression = zipfile.ZIP_DEFLATED if shrinks else zipfile.ZIP_STORED
            with members.open(f"{name}.npy", "w", force_zip64=True) as out:
                np.lib.format.write_array(out, np.asanyarray(array), allow_pickle=False)


def _is_shrinkable(array: Array) -> bool:
    """Whether a sample from the middle of an array deflates well."""
    n = _SAMPLE_BYTES // max(array.itemsize, 1)
    if array.size <= 1:
        return False
    middle = max(array.size - n, 0) // 2
    sample = array.reshape(-1, order="A")[middle : middle + n].tobytes()
    return len(zlib.compress(sample, _FASTEST)) <= _WORTH_IT * len(sample)


def save_arrays(
    path: str | os.PathLike[str],
    header: dict[str, Any],
    arrays: dict[str, Array],
    *,
    deflated: bool = True,
) -> None:
    """Write the arrays and the header to one file, whole or not at all; see `write_npz`."""
    described = {
        "format": _FORMAT,
        "version": _VERSION,
        "header": header,
        "arrays": {name: [str(a.dtype), list(a.shape)] for name, a in arrays.items()},
    }
    text = np.frombuffer(json.dumps(described).encode(), dtype=np.uint8)
    with writing(Path(path)) as file:
        write_npz(file, {"header.json": text, **arrays}, deflated=deflated)


def load_arrays(
    path: str | os.PathLike[str], *, mapped: bool = False
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read back what `save_arrays` wrote, perhaps mapped; DamagedModel where it is not whole."""
    try:
        if mapped:
            arrays = mapped_arrays(Path(path))
        else:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        described = json.loads(arrays.pop("header.json").tobytes())
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DamagedModel(f"{path} is not a readable model file: {error}") from error
    if described.get("format") != _FORMAT or described.get("version") != _VERSION:
        raise ModelOfOtherVersion(
            f"{path} holds {described.get('format')!r} version {described.get('version')!r}; "
            f"expected {_FORMAT!r} version {_VERSION}; fit and save it again"
        )
    held = {name: [str(a.dtype), list(a.shape)] for name, a in arrays.items()}
    if held != described["arrays"]:
        raise DamagedModel(f"{path} lists arrays {described['arrays']} but holds {held}")
    return described["header"], arrays


def mapped_arrays(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file, mapped into memory; a member that is deflated is read."""
    parts = {}
    with zipfile.ZipFile(path) as members, path.open("rb") as file:
        for member in members.infolist():
            name = member.filename.removesuffix(".npy")
            if member.compress_type != zipfile.ZIP_STORED:
                with members.open(member) as deflated:
                    parts[name] = np.lib.format.read_array(deflated, allow_pickle=False)
                continue
            # The local header is 30 bytes long; its last two numbers are lengths of what follows.
            file.seek(member.header_offset + _ZIP_HEADER - 4)
            lengths = struct.unpack("<HH", file.read(4))
            file.seek(sum(lengths), os.SEEK_CUR)
            major, _ = np.lib.format.read_magic(file)
            own = np.lib.format
            read_header = own.read_array_header_1_0 if major == 1 else own.read_array_header_2_0
            shape, fortran, dtype = read_header(file)
            order: Literal["F", "C"] = "F" if fortran else "C"
            if 0 in shape:
                parts[name] = np.empty(shape, dtype)
            else:
                parts[name] = np.memmap(path, dtype, "r", file.tell(), shape, order)
    return parts
