"""What the README tells a newcomer is there."""

import os
import re
from pathlib import Path

import pytest
import yaml

from mom_pipeline.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DEVELOPMENT = README.partition("\n## Development\n")[2]


def test_the_workflow_calls_what_runs_here():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == [".ci/run"]
    assert os.access(ROOT / commands[0], os.X_OK)


def test_a_newcomer_needs_one_line_for_the_tests():
    (line,) = DEVELOPMENT.split("```")[1].strip().splitlines()
    assert "pip install" in line
    assert "pytest" in line


CODE = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", README, re.DOTALL))


@pytest.mark.parametrize("name", sorted(set(re.findall(r"mom-pipeline ([a-z]+)", CODE))))
def test_a_command_that_is_named_exists(name):
    assert name in COMMANDS


@pytest.mark.parametrize("path", re.findall(r"`(mom_pipeline\w*/[\w/.]+\.py)`", DEVELOPMENT))
def test_a_file_that_is_named_exists(path):
    assert (ROOT / path).is_file()


@pytest.mark.parametrize("path", re.findall(r"\]\(([\w./-]+)\)", README))
def test_a_link_leads_somewhere(path):
    assert (ROOT / path).exists()
