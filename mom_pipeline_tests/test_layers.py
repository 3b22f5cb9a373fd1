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
ARRAYS = {"numpy", "scipy"}
STORAGE = {"core", "errors", "settings"}
ALLOWED = {
    # The last two inside of methods alone; `test_core_loads_neither_pandas_nor_scikit_learn`.
    "core": ARRAYS | {"threadpoolctl", "pandas", "sklearn"},
    "errors": {"core"},
    "catalogue": {"core"},
    "settings": {"core", "pydantic", "pydantic_core", "pydantic_settings", "tomlkit"},
    "dagster_home": {"core", "settings"},
    "dagster_storage": {"dagster", "dagster_shared", "sqlalchemy", "dagster_home"},
    "pictures": ARRAYS | {"core", "matplotlib"},
    "engine": ARRAYS | {"distributed", "fsspec", "pyarrow", "core"},
    "artifacts": ARRAYS | STORAGE,
    "warehouse": ARRAYS | STORAGE | {"catalogue", "duckdb", "pandas"},
    "logs": ARRAYS | STORAGE | {"duckdb", "pandas", "artifacts", "warehouse"},
    "datasets": ARRAYS | STORAGE | {"duckdb", "artifacts", "catalogue", "warehouse", "logs"},
    "erasure": ARRAYS | STORAGE | {"duckdb", "artifacts", "warehouse", "logs"},
    "comparison": ARRAYS | {"implicit"} | {"core", "pictures", "datasets", "warehouse", "logs"},
    "serving": ARRAYS | STORAGE | {"catalogue", "fastapi", "pydantic", "starlette"} | {"artifacts"},
    "tuning": ARRAYS | {"core", "settings", "logs", "warehouse"},
    "report": ARRAYS
    | {"catalogue", "jinja2", "markupsafe"}
    | {"core", "pictures", "settings", "artifacts", "warehouse", "logs", "comparison", "serving"},
    "defs": ARRAYS
    | STORAGE
    | {"catalogue", "dagster", "dagster_storage", "pydantic", "pictures"}
    | {"engine", "artifacts", "warehouse", "logs", "comparison", "serving", "report", "tuning"},
    "definitions": {"dagster", "dagster_home", "defs"},
    "ui": {"dagster", "dagster_graphql", "dagster_shared", "dagster_webserver"}
    | {"graphql", "uvicorn", "core"},
    "bench": ARRAYS
    | {"dagster", "duckdb", "implicit", "ir_measures"}
    | {"core", "settings", "pictures", "engine", "artifacts", "warehouse", "logs", "datasets"}
    | {"comparison", "serving", "report", "dagster_home", "defs", "definitions"},
    # All of them; `mom_pipeline` is the version.
    "cli": STORAGE
    | {
        "click",
        "duckdb",
        "rich",
        "dagster",
        "uvicorn",
        "mom_pipeline",
        "dagster_home",
        "defs",
        "catalogue",
    }
    | {"definitions"}
    | {"artifacts", "warehouse", "logs", "datasets", "comparison", "serving", "tuning", "erasure"}
    | {"pictures", "report", "ui", "bench"},
}


def imports_of(path):
    """Yield every module name that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield str(node.module)


def files_of(layer):
    """Return the files of a package, or of a module that stands alone."""
    return sorted((PACKAGE / layer).rglob("*.py")) or [PACKAGE / f"{layer}.py"]


def wrong_imports(layer):
    """Return what a layer imports besides the standard library, itself and what is allowed."""
    allowed = ALLOWED[layer] | {layer}
    wrong = []
    for path in files_of(layer):
        for module in imports_of(path):
            root, *below = module.split(".")
            name = below[0] if root == "mom_pipeline" and below else root
            if root not in sys.stdlib_module_names and name not in allowed:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    return wrong


@pytest.mark.parametrize("layer", ALLOWED)
def test_a_layer_imports_only_what_lies_below_it(layer):
    assert not wrong_imports(layer)


def test_every_package_has_its_place():
    names = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert {name for name in names if not name.startswith("_")} == set(ALLOWED)


def test_nothing_but_the_commands_uses_the_commands():
    for top in ("cli", "ui", "bench"):
        assert [layer for layer in ALLOWED if top in ALLOWED[layer]] in (["cli"], [])


def test_dagster_is_known_only_at_the_top():
    top = ("defs/", "definitions.py", "dagster_storage.py", "cli/", "ui/", "bench/")
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


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("mom_pipeline.cli.ask", {"dagster", "pandas", "duckdb", "matplotlib", "scipy.optimize"}),
        ("mom_pipeline.cli.status", {"dagster", "pandas", "matplotlib", "scipy.optimize"}),
        ("mom_pipeline.cli.run", {"dagster", "pandas", "matplotlib", "scipy.optimize"}),
        ("mom_pipeline.definitions", {"pandas", "matplotlib"}),
    ],
)
def test_a_command_loads_what_it_needs(module, heavy):
    """Loading a library takes longer than most answers, and as long as half of a small day."""
    code = f"import sys, {module}; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.split() == []
