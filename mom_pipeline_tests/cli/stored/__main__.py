"""Write the folder of the present format."""

import tempfile
import zipfile
from datetime import timedelta
from pathlib import Path

from mom_pipeline.warehouse.connection import FORMAT
from mom_pipeline_tests.cli.conftest import mom
from mom_pipeline_tests.faults.folders import FIRST, N_DAYS, deliver_late, write_folder

with tempfile.TemporaryDirectory() as place:
    folder = write_folder(Path(place) / "data")
    mom(folder, "update")
    mom(folder, "erase", "ben-00001", "--yes")
    # A late file, and a day of one line, which is excluded; two versions were in use.
    deliver_late(folder)
    odd = folder / "logs" / f"{FIRST + timedelta(N_DAYS)}.csv"
    odd.write_text(f"user,item,timestamp\nben-00002,jazz-001,{odd.stem}T10:00:00\n")
    mom(folder, "update")
    names = [line["version"] for line in mom(folder, "models", "--json").json["versions"]]
    mom(folder, "promote", names[0])
    mom(folder, "promote", names[-1])
    kept = [path for path in sorted(folder.rglob("*")) if path.name != ".writer"]
    archive = Path(__file__).parent / f"format_{FORMAT}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path in kept:
            if path.relative_to(folder).parts[0] not in ("dagster_home", "tmp"):
                out.write(path, path.relative_to(folder))
