-- Figures of one delivery day against the rows that count of the days before it. One scan of the
-- days before per id column: hash tables are built of the day's ids alone.
WITH today AS (
    SELECT user_id, item_id, event_time FROM raw_logs WHERE delivery_day = $day::DATE
),
before AS (
    SELECT user_id, item_id, delivery_day FROM admitted_logs WHERE delivery_day < $day::DATE
),
-- Counted back from the newest day before: a week without any file changes nothing.
since AS (
    SELECT
        max(delivery_day) - 27 AS month_begin,
        max(delivery_day) - 6 AS week_begin,
        count(DISTINCT delivery_day) AS days_before
    FROM before
),
users AS (SELECT user_id, count(*) AS n FROM today GROUP BY ALL),
pairs AS (SELECT DISTINCT user_id, item_id FROM today),
items AS (SELECT DISTINCT item_id FROM pairs),
known_users AS (
    SELECT user_id, max(delivery_day) AS last_day
    FROM before SEMI JOIN users USING (user_id) GROUP BY ALL
),
known_items AS (
    SELECT item_id, count(*) FILTER (WHERE delivery_day >= month_begin) AS recent_rows
    FROM before CROSS JOIN since SEMI JOIN items USING (item_id) GROUP BY ALL
),
known_pairs AS (
    SELECT DISTINCT user_id, item_id FROM before SEMI JOIN pairs USING (user_id, item_id)
),
recent AS (SELECT count(*) AS n FROM before, since WHERE delivery_day >= month_begin),
-- Every user counts once, however many rows are theirs: one of them cannot move a mean.
tastes AS (
    SELECT
        user_id,
        avg((known_items.item_id IS NULL)::INTEGER) AS new_items,
        avg((known_pairs.item_id IS NOT NULL)::INTEGER) AS taken_again,
        avg(ln((recent_rows + 0.5) / (recent.n + 1))) AS log_share  -- of known items
    FROM pairs
    LEFT JOIN known_items USING (item_id)
    LEFT JOIN known_pairs USING (user_id, item_id)
    CROSS JOIN recent
    GROUP BY ALL
),
of_users AS (
    SELECT
        count(*) AS users,
        count(last_day) AS known_users,
        avg(ln(n)) AS log_rows_per_user,
        coalesce(max(n), 0) AS most_rows,
        count(*) FILTER (WHERE last_day >= week_begin) AS lately_users,
        avg(new_items) AS new_items,
        avg(taken_again) FILTER (WHERE last_day IS NOT NULL) AS taken_again,
        avg(log_share) AS log_item_share
    FROM users LEFT JOIN known_users USING (user_id) JOIN tastes USING (user_id) CROSS JOIN since
),
of_hours AS (
    SELECT hour(event_time) AS hour, count(DISTINCT user_id) AS n
    FROM today GROUP BY ALL
),
of_lines AS (
    SELECT
        coalesce(sum(lines - header_lines), 0) AS lines,
        coalesce(sum(rows_rejected - rows_set_aside), 0) AS rejected
    FROM ingest_ledger WHERE delivery_day = $day::DATE
)
SELECT
    (SELECT count(*) FROM today) AS rows,
    (SELECT count(*) FROM (SELECT DISTINCT * FROM today)) AS different_rows,
    (SELECT days_before FROM since) AS days_before,
    of_users.*,
    of_lines.*,
    (
        SELECT list(coalesce(n, 0) ORDER BY hour)
        FROM (SELECT range AS hour FROM range(24)) LEFT JOIN of_hours USING (hour)
    ) AS hours
FROM of_users CROSS JOIN of_lines
