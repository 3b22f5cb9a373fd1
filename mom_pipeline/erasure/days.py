"""Erasure of a user from what was made of days: it goes, and is made again without the user.

The days that keep their arrays lose them and are computed again from the rows that are left. Of
older days the figures stay, which are means and counts over everybody.
"""

import json
from collections import Counter

from mom_pipeline.pipeline.days import LOGS, Days
from mom_pipeline.warehouse.matrix import logs_fingerprints


def erase_from_days(days: Days) -> Counter[str]:
    """Remove every array; the user's rows must have left the warehouse before.

    The days without arrays count as made from the logs as they are now.
    """
    older = [day for day in days.computed() if not days.is_kept(day)]
    with days.warehouse.connect() as connection:
        for day, fingerprint in logs_fingerprints(connection, older).items():
            made = days.made["interaction_matrix", day]
            connection.execute(
                "UPDATE materializations SET inputs = $inputs "
                "WHERE asset = 'interaction_matrix' AND day = $day::DATE",
                {
                    "inputs": json.dumps({**made.inputs, LOGS: fingerprint}),
                    "day": day.isoformat(),
                },
            )
    return Counter({"files of arrays": days.store.remove_others([])})
