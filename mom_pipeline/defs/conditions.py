"""When an asset is late, when it is tried again, and when a leaf of the graph is made by itself.

The chain of a day is one job, which schedule, sensor and commands run. Nothing stands on the
leaves, so they may come later, in runs of their own.
"""

from datetime import timedelta
from typing import Any

import dagster as dg
from dagster import AutomationCondition

from mom_pipeline.defs.partitions import DAILY

# Logs come every day, and the nightly run takes them.
DAILY_FRESH = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=26), fail_window=timedelta(hours=50)
)
# Of what comes from outside: a folder on another machine may be away for a moment. What the
# pipeline computes is deterministic, and would fail again.
TRIED_AGAIN = dg.RetryPolicy(max_retries=1, delay=2)
# The log of a day comes with it, or in the days after.
_RECENT = AutomationCondition.in_latest_time_window(timedelta(days=3))
# The page of a recent day, whenever the metrics of the day were made without it.
WITH_ITS_DAY = AutomationCondition.eager().replace(
    AutomationCondition.in_latest_time_window(), _RECENT
)
_SUNDAY: AutomationCondition[Any] = AutomationCondition.cron_tick_passed(
    "0 6 * * 0", DAILY.timezone
)
# The newest day that was evaluated, on Sundays after the rebuild: it takes minutes.
EACH_SUNDAY = (
    _RECENT
    & _SUNDAY.since_last_handled()
    & ~AutomationCondition.any_deps_missing()
    & ~AutomationCondition.in_progress()
)
