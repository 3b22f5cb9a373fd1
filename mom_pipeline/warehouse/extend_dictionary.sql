-- New ids in the order of their first delivery day and then of the id: deterministic, and
-- the same whether the days come one by one or all at once.
INSERT INTO {kind}_dictionary
SELECT
    (SELECT coalesce(max(position) + 1, 0) FROM {kind}_dictionary)
        + row_number() OVER (ORDER BY first_day, {kind}_id) - 1 AS position,
    {kind}_id,
    first_day
FROM (
    SELECT {kind}_id, min(delivery_day) AS first_day
    FROM admitted_logs
    ANTI JOIN {kind}_dictionary USING ({kind}_id)
    WHERE delivery_day <= $day::DATE
    GROUP BY {kind}_id
);
