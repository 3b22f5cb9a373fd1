"""A server of PostgreSQL for tests: on loopback, in a temporary folder, never as root."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mom_pipeline_tests.running import free_port

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@contextmanager
def server(programs: Path) -> Iterator[str]:
    """Start a server with the user `shop`, whose password is `secret`; yield its address."""
    as_other = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
    try:
        (folder / "password").write_text("secret")
        if as_other:
            shutil.chown(folder, "postgres", "postgres")
            shutil.chown(folder / "password", "postgres", "postgres")
        port = free_port()
        run = [*as_other, str(programs / "initdb"), "-D", str(folder / "data"), "-U", "shop"]
        run += ["--auth=scram-sha-256", f"--pwfile={folder / 'password'}", "--no-sync"]
        subprocess.run(run, check=True, capture_output=True)
        control = [*as_other, str(programs / "pg_ctl"), "-D", str(folder / "data"), "-w"]
        options = f"-h 127.0.0.1 -p {port} -k {folder} -F"
        log = ["-l", str(folder / "log")]
        subprocess.run([*control, *log, "-o", options, "start"], check=True, capture_output=True)
        try:
            yield f"postgresql://shop:secret@127.0.0.1:{port}/postgres"
        finally:
            stop = [*control, "-m", "immediate", "stop"]
            subprocess.run(stop, check=True, capture_output=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
