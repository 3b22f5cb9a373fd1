"""The notebooks run from top to bottom, each cell shows what it ends with, and none is stored."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "data" / "notebooks").glob("*.ipynb"))
# Runs cells as a kernel does: what a cell ends with is shown by its own HTML.
KERNEL = """
import ast, json, sys
names = {"__name__": "__main__"}
for number, source in enumerate(json.load(sys.stdin)):
    *body, last = ast.parse(source).body
    shown = isinstance(last, ast.Expr)
    exec(compile(ast.Module(body if shown else [*body, last], []), f"cell {number}", "exec"), names)
    if shown:
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        print(json.dumps(value._repr_html_()))
"""


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_output(path):
    for cell in code_cells(json.loads(path.read_text())):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


def test_the_notebook_shows_lists_components_and_curves():
    (path,) = NOTEBOOKS
    sources = ["".join(cell["source"]) for cell in code_cells(json.loads(path.read_text()))]
    done = subprocess.run(
        [sys.executable, "-c", KERNEL],
        input=json.dumps(sources),
        cwd=path.parent,
        env={**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": str(path.parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(shown) == sum(isinstance(ast.parse(s).body[-1], ast.Expr) for s in sources) >= 7
    page = "\n".join(shown)
    for heading in (
        "component",
        "Mostly Jazz",
        "rank",
        "score",
        "probability",
        "recall",
        "three moments",
    ):
        assert heading in page
    assert "MethodOfMoments(n_components=8" in shown[1]
    assert "somebody new" in shown[3]
