"""Commands under a clock that is years off, as on a machine whose clock was set."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

_SOURCE = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *t) {
    const char *off = getenv("CLOCK_OFF");
    int failed = syscall(SYS_clock_gettime, id, t);
    if (!failed && off && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        t->tv_sec += atol(off);
    return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}
"""
YEAR = 365 * 24 * 3600


class Clock:
    """Runs commands with the clock set; the times of files are those of the machine."""

    def __init__(self, folder: Path) -> None:
        self._library = folder / "clock.so"
        (folder / "clock.c").write_text(_SOURCE)
        compiler = str(shutil.which("cc"))
        options = ("-shared", "-fPIC", "-o", str(self._library), str(folder / "clock.c"))
        subprocess.run([compiler, *options], check=True)

    def run(self, folder: Path, *arguments: str, years: float = 0) -> str:
        """Run a command some years from now, and return what it said; it must succeed."""
        how = {"MOM_DATA_DIR": str(folder), "LD_PRELOAD": str(self._library)}
        how |= {"CLOCK_OFF": str(round(years * YEAR))}
        words = [sys.executable, "-m", "mom_pipeline", *arguments]
        done = subprocess.run(words, env=os.environ | how, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr
