"""Schemathesis against the running service: what it generates from the OpenAPI document."""

import os
import subprocess
import sys
from pathlib import Path

from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline_tests.serving.service import running_service

EXAMPLES = "25"
# By default a body that is refused for its length alone, 413, is not taken for refused.
SETTINGS = """
[checks]
negative_data_rejection.expected-statuses = [400, 404, 405, 413, 415, 422]
"""


def test_the_service_keeps_to_its_schema(tmp_path, make):
    registry = ModelRegistry(tmp_path / "models")
    registry.promote(registry.add(make(1)), "a test")
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    command = Path(sys.executable).with_name("schemathesis")
    with running_service(tmp_path) as service:
        address = f"http://127.0.0.1:{service.port}/openapi.json"
        arguments = ["run", address, "--seed", "1", "--max-examples", EXAMPLES, "--no-color"]
        result = subprocess.run(
            [command, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"NO_COLOR": "1"},
        )
        assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]
        assert service.process.poll() is None
