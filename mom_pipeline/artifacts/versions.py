"""Folders of immutable versions: written under a temporary name, renamed when complete.

    <version>/manifest.json   the format, what the maker says, and the sha256 of every other file
    <version>/...             the files

The name of a version ends with the beginning of the sha256 of its manifest: equal content has an
equal name.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mom_pipeline.core.files import (
    is_left_over,
    sha256_of,
    sync_folder,
    temporary_path,
    write_text,
)
from mom_pipeline.errors import DamagedArtifact

MANIFEST = "manifest.json"
FORMAT = 2


@contextmanager
def unfinished_version(parent: Path) -> Iterator[Path]:
    """A temporary folder for the files of a version; removed at the end if not published."""
    parent.mkdir(parents=True, exist_ok=True)
    remove_left_overs(parent)
    folder = temporary_path(parent / "new")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_left_overs(parent: Path) -> None:
    """Remove the unfinished versions of processes that have ended."""
    for left_over in filter(is_left_over, parent.iterdir()):
        shutil.rmtree(left_over, ignore_errors=True)


def seal(folder: Path, facts: Mapping[str, Any]) -> str:
    """Write the manifest over the files of a folder, and return its sha256."""
    sums = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    manifest = {**facts, "format": FORMAT, "sha256": sums}
    text = json.dumps(manifest, indent=2, sort_keys=True, allow_nan=False) + "\n"
    write_text(folder / MANIFEST, text)
    return sha256_of(text.encode())


def share_files(folder: Path, versions: Iterable[Path]) -> None:
    """Hard-link the files that another version holds too; copies stay where there are no links."""
    own = read_sums(folder)
    for version in versions:
        for name, sha256 in read_sums(version).items():
            if own.get(name) == sha256:
                with suppress(OSError):
                    if sha256_of(version / name) != sha256:  # damaged since
                        continue
                    linked = temporary_path(folder / name)
                    linked.hardlink_to(version / name)
                    linked.replace(folder / name)
                del own[name]


def read_sums(version: Path) -> dict[str, str]:
    """The sha256 of the files of a version; none where its manifest cannot be read."""
    try:
        sums: dict[str, str] = json.loads((version / MANIFEST).read_bytes())["sha256"]
    except (OSError, ValueError, KeyError, RecursionError):
        return {}
    return sums


def publish(unfinished: Path, version: Path) -> None:
    """Rename a sealed folder to its version, unless that is there already and undamaged."""
    if is_whole(version):
        return
    shutil.rmtree(version, ignore_errors=True)
    version.parent.mkdir(parents=True, exist_ok=True)
    unfinished.replace(version)
    sync_folder(version.parent)


def read_manifest(version: Path) -> dict[str, Any]:
    """The manifest of a version; DamagedArtifact when it is not the one that was written."""
    path = version / MANIFEST
    try:
        data = path.read_bytes()
        manifest: dict[str, Any] = json.loads(data)
        written = manifest.get("format", 1)
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise DamagedArtifact(f"{path} cannot be read ({error})") from error
    if written != FORMAT:
        raise DamagedArtifact(
            f"{path} has format {written}, this version of mom-pipeline reads {FORMAT}: "
            "`mom-pipeline update` computes it again"
        )
    if not sha256_of(data).startswith(version.name.rpartition("-")[2]):
        raise DamagedArtifact(f"{path} is not the manifest of {version.name}")
    return manifest


def check_files(version: Path, manifest: Mapping[str, Any]) -> None:
    """Raise DamagedArtifact when a file is missing or has another sha256."""
    for name, expected in manifest["sha256"].items():
        path = version / name
        try:
            same = sha256_of(path) == expected
        except OSError as error:
            raise DamagedArtifact(f"{path} cannot be read ({error})") from error
        if not same:
            raise DamagedArtifact(f"{path} differs from its manifest")


def is_whole(version: Path) -> bool:
    """Whether this very content is there already, undamaged."""
    try:
        check_files(version, read_manifest(version))
    except DamagedArtifact:
        return False
    return True
