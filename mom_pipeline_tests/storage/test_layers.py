"""Storage knows the data and core's types; it knows nothing of Dagster."""

import ast
import sys
from pathlib import Path

import mom_pipeline.storage

ALLOWED = {"duckdb", "numpy", "pandas", "scipy"}
ALLOWED_OWN = ("mom_pipeline.storage", "mom_pipeline.settings", "mom_pipeline.core")


def test_storage_imports_only_what_its_layer_may() -> None:
    for path in Path(mom_pipeline.storage.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for name in names:
                top = name.split(".")[0]
                known = top in ALLOWED or top in sys.stdlib_module_names
                assert known or name.startswith(ALLOWED_OWN), f"{path.name} imports {name}"
                assert top != "pickle", f"{path.name} imports pickle"
