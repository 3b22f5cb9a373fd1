-- Positions of the ids first delivered from a day on, in the order of day and id.
CREATE OR REPLACE TEMP TABLE ids_in_order AS
WITH earlier AS (
    SELECT * FROM {kind}_dictionary WHERE first_day < $first::DATE
)
SELECT
    (SELECT coalesce(max(position) + 1, 0) FROM earlier)
        + row_number() OVER (ORDER BY first_day, {kind}_id) - 1 AS position,
    {kind}_id,
    first_day
FROM (
    SELECT {kind}_id, min(delivery_day) AS first_day
    FROM admitted_logs
    ANTI JOIN earlier USING ({kind}_id)
    WHERE delivery_day >= $first::DATE
    GROUP BY {kind}_id
);
