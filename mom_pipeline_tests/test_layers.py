"""The packages depend on each other in one direction only."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mom_pipeline

PACKAGE = Path(mom_pipeline.__file__).parent
ROOT = PACKAGE.parent

# What each package may import besides the standard library and itself.
ALLOWED = {
    "core": {"numpy", "scipy"},
    "baselines": {"numpy", "scipy", "implicit", "threadpoolctl", "sklearn", "mom_pipeline.core"},
    "storage": {
        "numpy",
        "scipy",
        "duckdb",
        "pandas",
        "pyarrow",
        "mom_pipeline.core",
        "mom_pipeline.settings",
    },
    "comparison": {
        "numpy",
        "scipy",
        "matplotlib",
        "mom_pipeline.core",
        "mom_pipeline.baselines",
        "mom_pipeline.pictures",
        "mom_pipeline.storage",
    },
    "report": {
        "numpy",
        "scipy",
        "matplotlib",
        "mom_pipeline.core",
        "mom_pipeline.comparison",
        "mom_pipeline.pictures",
        "mom_pipeline.settings",
        "mom_pipeline.storage",
    },
    "serving": {
        "numpy",
        "scipy",
        "starlette",
        "uvicorn",
        "mom_pipeline.core",
        "mom_pipeline.storage",
        "mom_pipeline.settings",
    },
    "engine": {"numpy", "scipy", "distributed", "fsspec", "pyarrow", "mom_pipeline.core"},
}


def imports_of(path):
    """Yield every module name that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield str(node.module)


@pytest.mark.parametrize("layer", [name for name in ALLOWED if (PACKAGE / name).is_dir()])
def test_a_layer_imports_only_what_lies_below_it(layer):
    allowed = ALLOWED[layer] | {f"mom_pipeline.{layer}"}
    found = []
    for path in sorted((PACKAGE / layer).rglob("*.py")):
        for module in imports_of(path):
            root = module.split(".")[0]
            own = ".".join(module.split(".")[:2])
            if root not in sys.stdlib_module_names and not {root, own} & allowed:
                found.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not found


def test_dagster_is_known_only_at_the_top():
    top = ("defs/", "definitions.py", "commands/", "ui/")
    for path in PACKAGE.rglob("*.py"):
        if not str(path.relative_to(PACKAGE)).startswith(top):
            assert not [m for m in imports_of(path) if m.startswith("dagster")], path


def test_core_is_importable_without_dagster_and_duckdb():
    code = (
        "import sys\n"
        "for name in ('dagster', 'duckdb', 'pandas', 'click', 'rich', 'matplotlib'):\n"
        "    sys.modules[name] = None\n"
        "from mom_pipeline.core import MethodOfMoments, simulate\n"
        "truth, X = simulate(300, 40, 3)\n"
        "MethodOfMoments(3).fit(X).recommend(X)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_nothing_is_pickled():
    for path in PACKAGE.rglob("*.py"):
        assert not {"pickle", "joblib", "dill", "shelve"} & set(imports_of(path)), path


def test_the_top_level_is_the_users():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    expected = {"pyproject.toml", "README.md", "LICENSE", "workspace.yaml", "data"}
    expected |= {"mom_pipeline", "mom_pipeline_tests"}
    assert {name for name in top if not name.startswith(".")} <= expected
