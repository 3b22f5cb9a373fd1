WITH ids AS (
    SELECT
        delivery_day,
        count(DISTINCT user_id) AS users,
        count(DISTINCT item_id) AS items
    FROM raw_logs
    GROUP BY delivery_day
)
SELECT
    delivery_day,
    count(*) AS files,
    sum(rows_accepted)::BIGINT AS rows_accepted,
    sum(rows_rejected)::BIGINT AS rows_rejected,
    sum(rows_set_aside)::BIGINT AS rows_set_aside,
    coalesce(any_value(users), 0) AS users,
    coalesce(any_value(items), 0) AS items
FROM ingest_ledger
LEFT JOIN ids USING (delivery_day)
GROUP BY delivery_day
ORDER BY delivery_day
