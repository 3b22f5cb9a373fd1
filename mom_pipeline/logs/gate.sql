-- Figures of one delivery day against the rows that count of the quarter before it. Hash tables
-- are built of the day's own ids, and the rows before stream past them: one scan per id column.
WITH today AS (
    SELECT user_id, item_id, event_time FROM raw_logs WHERE delivery_day = $day::DATE AND weight > 0
),
before AS (
    SELECT user_id, item_id, delivery_day
    FROM admitted_logs
    WHERE delivery_day >= $quarter::DATE AND delivery_day < $day::DATE AND weight > 0
),
users AS (SELECT user_id, count(*) AS n FROM today GROUP BY ALL),
pairs AS (SELECT DISTINCT user_id, item_id FROM today),
known_users AS (SELECT user_id, true AS known FROM users SEMI JOIN before USING (user_id)),
lately_users AS (
    SELECT user_id, true AS lately
    FROM users SEMI JOIN (FROM before WHERE delivery_day >= $week::DATE) USING (user_id)
),
known_pairs AS (
    SELECT user_id, item_id, 1 AS again FROM pairs SEMI JOIN before USING (user_id, item_id)
),
item_rows AS (
    SELECT item_id, count(*) FILTER (WHERE delivery_day >= $month::DATE) AS n
    FROM before GROUP BY ALL
),
month AS (SELECT sum(n) AS n FROM item_rows),
-- Every user counts once, however many rows are theirs: one of them cannot move a mean.
tastes AS (
    SELECT
        user_id,
        avg((item_rows.n IS NULL)::INTEGER) AS new_items,
        avg(coalesce(again, 0)) AS taken_again,
        avg(ln((item_rows.n + 0.5) / (month.n + 1))) AS log_item_share  -- of known items
    FROM pairs
    LEFT JOIN item_rows USING (item_id)
    LEFT JOIN known_pairs USING (user_id, item_id)
    CROSS JOIN month
    GROUP BY ALL
),
of_users AS (
    SELECT
        count(*) AS users,
        coalesce(exp(avg(ln(n))), 0) AS rows_per_user,
        max(n) / sum(n) AS top_user_share,
        1 - count(known) / count(*) AS new_user_share,
        count(lately) / greatest(count(known), 1) AS lately_share,
        avg(new_items) AS new_item_share,
        avg(taken_again) FILTER (WHERE known) AS taken_again_share,
        1e6 * exp(avg(log_item_share)) AS item_popularity
    FROM users
    JOIN tastes USING (user_id)
    LEFT JOIN known_users USING (user_id)
    LEFT JOIN lately_users USING (user_id)
),
of_rows AS (
    SELECT
        count(*) AS rows,
        1 - (SELECT count(*) FROM (SELECT DISTINCT * FROM today)) / count(*) AS repeated_share
    FROM today
),
of_hours AS (
    SELECT hour(event_time) AS hour, count(DISTINCT user_id) AS n FROM today GROUP BY ALL
),
of_lines AS (
    SELECT sum(rows_rejected - rows_set_aside) / greatest(sum(lines - header_lines), 1)
        AS rejected_share
    FROM ingest_ledger WHERE delivery_day = $day::DATE
)
SELECT
    of_rows.*,
    of_users.*,
    of_lines.*,
    (
        SELECT list(coalesce(n, 0) ORDER BY hour)
        FROM (SELECT range AS hour FROM range(24)) LEFT JOIN of_hours USING (hour)
    ) AS hours
FROM of_rows CROSS JOIN of_users CROSS JOIN of_lines
