"""`dagster dev` from the project root: Dagster itself loads `workspace.yaml`."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def validate(folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    home.mkdir()
    return subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"],
        cwd=folder,
        env={**os.environ, "DAGSTER_HOME": str(home), "MOM_DATA_DIR": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_workspace_loads(tmp_path: Path) -> None:
    done = validate(ROOT, tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert "Validation successful for code location mom_pipeline" in done.stderr + done.stdout
