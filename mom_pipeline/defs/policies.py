"""When an asset is late, and when it is tried again."""

from datetime import timedelta

import dagster as dg

# Logs come every day, and the nightly run ingests them.
DAILY_FRESH = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=26), fail_window=timedelta(hours=50)
)
# Of what comes from outside: a folder on another machine may be away for a moment. What the
# pipeline computes is deterministic, and would fail again.
RETRIED = dg.RetryPolicy(max_retries=1, delay=2)
