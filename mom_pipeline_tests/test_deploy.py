"""What runs in containers names what exists; `.ci/run --long` builds it and runs it."""

import re
import shlex

import click
import pytest
import yaml

from mom_pipeline.cli.main import cli
from mom_pipeline_tests.running import ROOT

DEPLOY = ROOT / "mom_pipeline" / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
LINES = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text()).splitlines()


def said(instruction: str) -> list[str]:
    return [line.partition(" ")[2] for line in LINES if line.startswith(f"{instruction} ")]


def test_the_image_is_made_of_what_there_is():
    for copied in said("COPY"):
        *sources, _ = copied.split()
        assert all((ROOT / source).exists() for source in sources), copied
    build = COMPOSE["services"]["pipeline"]["build"]
    context = (DEPLOY / build["context"]).resolve()
    assert context == ROOT
    assert (context / build["dockerfile"]).samefile(DEPLOY / "Containerfile")
    (base,) = (arg for arg in said("ARG") if arg.startswith("BASE="))
    assert build["args"]["BASE"] == f"${{{base.replace('=', ':-')}}}"
    assert said("FROM") == ["${BASE}"]
    (folder,) = said("VOLUME")
    assert f"MOM_DATA_DIR={folder}" in " ".join(said("ENV"))
    (volume,) = COMPOSE["volumes"]
    services = COMPOSE["services"].values()
    assert all(service["volumes"] == [f"{volume}:{folder}"] for service in services)
    assert {service["image"] for service in services} == {"mom-pipeline"}


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_service_runs_a_command_that_there_is(name: str):
    command = COMPOSE["services"][name]["command"]
    if name == "pipeline":
        (script,) = command
        command = shlex.split(script.partition("mom-pipeline ")[2].partition(";")[0])
    word, *options = command
    cli.get_command(click.Context(cli), word).make_context(word, options)


def test_a_container_is_reached_on_the_port_it_listens_on():
    service = COMPOSE["services"]["service"]
    assert service["ports"] == ["8000:8000"]
    assert "http://127.0.0.1:8000/ready" in service["healthcheck"]["test"][-1]
    assert set(service["environment"]) == {"MOM_SERVE_TOKEN"}
