-- One delivery day: sums of the ledger, counts of the table, and accepted rows of the days of the
-- week before.
WITH of_ledger AS (
    SELECT
        count(*) AS files,
        coalesce(sum(lines), 0)::BIGINT AS lines,
        coalesce(sum(header_lines), 0)::BIGINT AS header,
        coalesce(sum(rows_accepted), 0)::BIGINT AS accepted,
        coalesce(sum(rows_rejected), 0)::BIGINT AS rejected
    FROM ingest_ledger WHERE delivery_day = $day
),
of_rows AS (
    SELECT
        count(*) AS rows,
        count(DISTINCT user_id) AS users,
        count(DISTINCT item_id) AS items
    FROM raw_logs WHERE delivery_day = $day
),
before AS (
    SELECT delivery_day, sum(rows_accepted)::BIGINT AS n
    FROM ingest_ledger
    WHERE delivery_day >= $day - 7 AND delivery_day < $day
    GROUP BY ALL
)
SELECT
    *,
    (SELECT coalesce(list(n ORDER BY delivery_day), []) FROM before) AS trailing,
    (SELECT max(delivery_day) FROM ingest_ledger WHERE delivery_day <= $day) AS newest
FROM of_ledger CROSS JOIN of_rows
