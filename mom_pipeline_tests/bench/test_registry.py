"""Every bench can be run with the options that the command line offers."""

import inspect
from importlib import import_module

import pytest

from mom_pipeline.bench.registry import BENCHES
from mom_pipeline.cli.bench import bench


@pytest.mark.parametrize("name", BENCHES)
def test_options_are_arguments_of_the_bench(name):
    entry = BENCHES[name]
    module = import_module(f"mom_pipeline.bench.{entry.module}")
    function = name.replace("-", "_")
    accepted = inspect.signature(getattr(module, f"run_{function}")).parameters
    command = bench.commands[name]
    given = {p.name for p in command.params} - {"as_json", "plot"}
    assert given | {"progress"} <= set(accepted)
    required = {n for n, p in accepted.items() if p.default is inspect.Parameter.empty}
    assert required <= given
    assert hasattr(module, f"plot_{function}") == bool(entry.plot)
    assert command.help.startswith(inspect.cleandoc(entry.help).splitlines()[0])
