"""The page "In your shop": its commands as they stand, on a folder that was computed."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline_tests.cli.conftest import mom
from mom_pipeline_tests.defs.conftest import SETTINGS_FILE
from mom_pipeline_tests.running import ROOT, environment

PAGE = ROOT / "mom_pipeline" / "serving" / "README.md"
SIZES = ("--days", "2", "--users", "300", "--items", "60", "--components", "3", "--events", "900")


@pytest.mark.long
def test_every_command_runs_as_written(tmp_path: Path):
    """In one shell, on a free port."""
    data = tmp_path / "data"
    mom(data, "simulate", *SIZES, "--first-day", "2024-03-01")
    (data / "pipeline.toml").write_text(
        SETTINGS_FILE.replace('"components"', '"three-moment"').replace("_days = 0", "_days = 28")
    )
    mom(data, "backfill", "--from", "2024-03-01", "--to", "2024-03-01")
    mom(data, "update")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    blocks = re.findall(r"<!-- commands -->\n```\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 4
    script = "set -e\n" + "".join(blocks).replace(":8000/", f":{port}/")
    script = script.replace("mom-pipeline serve", f"mom-pipeline serve --port {port}")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    candidate = ModelRegistry(data / "models").names()[0]
    done = subprocess.run(
        ["bash", "-c", script],
        env=environment(data, PATH=programs, CANDIDATE=candidate),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"fallback":true' not in done.stdout
    assert '{"accepted":2,"known":0,"erased":0}' in done.stdout
    assert '{"item":"jazz-003","hidden":true,"boost":1.0}' in done.stdout
    assert f'"trial":{{"version":"{candidate}","share":0.1' in done.stdout
    assert f"{candidate} is not shown to be better" in done.stderr
    assert "item_id" in done.stdout
    unit = (tmp_path / "mom-pipeline.service").read_text()
    assert f"serve --port {port} --workers 2 --host 0.0.0.0\n" in unit
