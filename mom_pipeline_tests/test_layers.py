"""The packages depend on each other in one direction only."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import mom_pipeline

PACKAGE = Path(mom_pipeline.__file__).parent
ROOT = PACKAGE.parent

# What each package may import besides the standard library and itself.
ARRAYS = {"numpy", "scipy"}
STORAGE = {"core", "errors", "settings"}
ALLOWED = {
    # pandas and scikit-learn inside of methods alone; `test_core_is_importable_without_...`.
    "core": ARRAYS | {"threadpoolctl", "pandas", "sklearn", "errors"},
    "errors": set(),
    "catalogue": {"core", "errors"},
    "groups": ARRAYS | STORAGE | {"catalogue"},
    "settings": {"pydantic", "pydantic_core", "pydantic_settings", "errors"},
    "settings_file": {"tomlkit", "core", "settings"},
    "segments": ARRAYS | STORAGE | {"catalogue", "artifacts", "pipeline"},
    "pipeline": ARRAYS | STORAGE | {"artifacts", "warehouse", "logs"},
    "dagster_home": {"core", "settings"},
    "pictures": ARRAYS | {"core"},
    "engine": ARRAYS | {"distributed", "fsspec", "pyarrow", "core"},
    "artifacts": ARRAYS | STORAGE,
    "warehouse": ARRAYS | STORAGE | {"catalogue", "duckdb", "pandas"},
    "logs": ARRAYS | STORAGE | {"duckdb", "artifacts", "catalogue", "warehouse"},
    "datasets": ARRAYS
    | STORAGE
    | {"duckdb", "pydantic", "artifacts", "catalogue", "warehouse", "logs", "settings_file"},
    "erasure": ARRAYS
    | STORAGE
    | {"duckdb", "artifacts", "warehouse", "logs", "groups", "pipeline", "segments", "serving"},
    "comparison": ARRAYS
    | {"implicit", "pydantic"}
    | {"core", "pictures", "datasets", "warehouse", "logs"},
    "serving": ARRAYS
    | STORAGE
    | {"catalogue", "fastapi", "prometheus_client", "pydantic", "starlette"}
    | {"artifacts", "warehouse", "groups", "pipeline"},
    "report": ARRAYS
    | {"catalogue", "jinja2", "markupsafe"}
    | {"core", "pictures", "settings", "warehouse", "logs", "comparison", "serving"},
    "defs": ARRAYS
    | STORAGE
    | {"catalogue", "dagster", "pydantic", "pictures", "settings_file"}
    | {"groups", "pipeline", "datasets", "exports"}
    | {"engine", "artifacts", "warehouse", "logs", "comparison", "serving", "report"},
    "exports": ARRAYS | STORAGE | {"catalogue", "duckdb", "datasets", "warehouse", "serving"},
    "components": {"dagster", "pydantic", "settings", "datasets", "exports", "defs"},
    "definitions": {"dagster", "defs"},
    "deploy": set(),  # no Python
    "ui": {"httpx", "starlette", "uvicorn", "websockets", "core"},
    "bench": ARRAYS
    | {"duckdb", "implicit"}
    | {"core", "settings", "pictures", "engine", "warehouse", "logs", "datasets"}
    | {"comparison", "serving", "report", "exports"},
    # All of them; `mom_pipeline` is the version.
    "cli": STORAGE
    | {
        "click",
        "duckdb",
        "rich",
        "dagster",
        "starlette",
        "mom_pipeline",
        "dagster_home",
        "defs",
        "catalogue",
        "settings_file",
        "segments",
        "pipeline",
    }
    | {"definitions", "groups"}
    | {"artifacts", "warehouse", "logs", "datasets", "comparison", "serving", "erasure"}
    | {"exports", "pictures", "report", "ui", "bench"},
}


# Lines of Python that a package may have; raised only by an issue that adds something. They are
# what was reached, to be lowered: core 7,100, logs 1,750, datasets 780, defs 1,600, engine 600,
# serving 2,200, comparison 1,600, report and pictures 800, cli 1,700 and bench 1,250 are meant.
BUDGETS = {
    "core": 8_070,
    "logs": 2_040,
    "datasets": 2_160,
    "warehouse": 840,
    "artifacts": 450,
    "groups": 590,
    "pipeline": 900,
    "defs": 2_200,
    "engine": 680,
    "serving": 4_180,
    "comparison": 1_750,
    "report": 570,
    "pictures": 320,
    "erasure": 860,
    "cli": 3_150,
    "bench": 1_980,
    "ui": 500,
    "settings": 490,
    "exports": 340,
    "components": 90,
    "segments": 250,
}


@cache
def nodes_of(path):
    """Every node of a file."""
    return list(ast.walk(ast.parse(path.read_text())))


def imports_of(path):
    """Yield every module name that a file imports, anywhere in it."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield str(node.module)


def files_of(layer):
    """Return the files of a package, or of a module that stands alone."""
    folder = PACKAGE / layer
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{layer}.py"]


@pytest.mark.parametrize("layer", ALLOWED)
def test_a_layer_imports_only_what_lies_below_it(layer):
    wrong = []
    for path in files_of(layer):
        for module in imports_of(path):
            root, *below = module.split(".")
            name = below[0] if root == "mom_pipeline" and below else root
            if root not in sys.stdlib_module_names and name not in ALLOWED[layer] | {layer}:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong


def test_every_package_has_its_place():
    names = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert {name for name in names if not name.startswith("_")} == set(ALLOWED)


@pytest.mark.parametrize("layer", BUDGETS)
def test_a_package_keeps_to_its_budget(layer):
    lines = sum(len(path.read_text().splitlines()) for path in files_of(layer))
    assert lines <= BUDGETS[layer]


def test_no_class_name_stands_twice():
    names = Counter(
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, n in names.items() if n > 1] == []


# The tables of Dagster's own databases, and the files that hold them.
_DAGSTERS_TABLES = re.compile(
    r"\b(event_logs|asset_keys|asset_check_executions|run_tags|bulk_actions|job_ticks|"
    r"daemon_heartbeats|secondary_indexes|runs\.db|index\.db|schedules\.db)\b"
)


def private_parts(path):
    """Yield where a file reaches behind the public names of Dagster."""
    for node in nodes_of(path):
        text = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Call) else ""
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("dagster")]
            yield from (name for name in names if name != "dagster")
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("dagster"):
            names = {alias.name for alias in node.names}
            public = node.module == "dagster" or names == {"DagsterGraphQLClient"}
            if not public or any(name.startswith("_") for name in names):
                yield f"{node.module}: {names}"
        elif isinstance(node, ast.Constant) and _DAGSTERS_TABLES.search(str(node.value)):
            yield f"SQL: {node.value}"
        elif isinstance(node, ast.Attribute) and text.startswith(("dg.", "dagster.")):
            if node.attr.startswith("_") or isinstance(node.ctx, ast.Store):
                yield f"{text} is private, or patched"
        elif text.startswith(("setattr(dg", "setattr(dagster", "patch.object(dg")):
            yield f"{text} patches"


def test_only_public_names_of_dagster_are_used():
    found = {path.name: list(private_parts(path)) for path in PACKAGE.rglob("*.py")}
    assert {name: parts for name, parts in found.items() if parts} == {}
    for path in PACKAGE.rglob("*.sql"):
        assert not _DAGSTERS_TABLES.search(path.read_text()), path


@pytest.mark.parametrize(
    "line",
    [
        "from dagster._core.instance import DagsterInstance",
        "import dagster_webserver.app",
        "from dagster_graphql.schema import create_schema",
        "from dagster_shared.cli import WorkspaceOpts",
        "import dagster as dg\ndg._core.utils",
        "import dagster as dg\ndg.DagsterInstance.add_run = print",
        "import dagster as dg\nsetattr(dg.DagsterInstance, 'add_run', print)",
        "sql = 'SELECT step_key FROM event_logs'",
    ],
)
def test_private_parts_of_dagster_are_found(tmp_path, line):
    (tmp_path / "module.py").write_text(line)
    assert list(private_parts(tmp_path / "module.py"))


def test_core_is_importable_without_what_lies_above_it():
    code = (
        "import sys\n"
        "above = ('dagster', 'duckdb', 'pandas', 'sklearn', 'click', 'rich', 'matplotlib')\n"
        "sys.modules.update(dict.fromkeys(above))\n"
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
    expected = {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "workspace.yaml", "data"}
    expected |= {"mom_pipeline", "mom_pipeline_tests"}
    assert {name for name in top if not name.startswith(".")} <= expected


def test_a_command_loads_what_it_needs():
    """Loading a library takes longer than most answers, and as long as half of a small day."""
    slow = {"dagster", "pandas", "matplotlib", "scipy.optimize"}
    needless = {
        "mom_pipeline.cli.ask": slow | {"duckdb"},
        "mom_pipeline.cli.status": slow,
        "mom_pipeline.cli.run": slow,
        "mom_pipeline.definitions": {"pandas", "matplotlib"},
    }
    code = (
        "import importlib, sys\n"
        f"for module, heavy in {needless!r}.items():\n"
        "    importlib.import_module(module)\n"
        "    assert not heavy & set(sys.modules), module\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
