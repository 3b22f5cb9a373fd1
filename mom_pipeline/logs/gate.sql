-- Figures of some delivery days, each against the rows that count of the quarter before it. Several
-- days are asked for in a run of days that were not judged yet: each counts for those after it.
WITH counted AS (SELECT DISTINCT delivery_day FROM admitted_logs),
-- Counted back from the newest day before: a week without any file changes nothing.
bounds AS (
    SELECT
        day,
        count(delivery_day) AS days_before,
        coalesce(max(delivery_day), day) - 90 AS quarter,
        coalesce(max(delivery_day), day) - 27 AS month,
        coalesce(max(delivery_day), day) - 6 AS week
    FROM (SELECT unnest($days::DATE[]) AS day) LEFT JOIN counted ON delivery_day < day
    GROUP BY day
),
today AS (
    SELECT delivery_day AS day, user_id, item_id, event_time
    FROM raw_logs SEMI JOIN bounds ON delivery_day = day
    WHERE weight > 0
),
before AS (
    SELECT delivery_day AS day, user_id, item_id
    FROM admitted_logs ANTI JOIN bounds ON delivery_day = day
    WHERE weight > 0
    AND delivery_day >= (SELECT min(quarter) FROM bounds)
    AND delivery_day < (SELECT max(day) FROM bounds)
),
all_rows AS (SELECT day, user_id, item_id FROM today UNION ALL FROM before),
-- What a day's own ids have, and when they were seen last before.
user_days AS (
    SELECT day, user_id, count(*) AS n, lag(day) OVER (PARTITION BY user_id ORDER BY day) AS last
    FROM all_rows SEMI JOIN today USING (user_id)
    GROUP BY day, user_id
),
pair_days AS (
    SELECT
        day, user_id, item_id,
        lag(day) OVER (PARTITION BY user_id, item_id ORDER BY day) AS last
    FROM all_rows SEMI JOIN today USING (user_id, item_id)
    GROUP BY day, user_id, item_id
),
item_days AS (
    SELECT day, item_id, count(*) AS n
    FROM all_rows SEMI JOIN today USING (item_id)
    GROUP BY day, item_id
),
item_rows AS (
    SELECT
        day,
        item_id,
        lag(day) OVER (PARTITION BY item_id ORDER BY day) >= quarter AS known,
        coalesce(sum(n) OVER (
            PARTITION BY item_id ORDER BY day - DATE '1970-01-01'
            RANGE BETWEEN coalesce(day - month, 1) PRECEDING AND 1 PRECEDING
        ), 0) AS n
    FROM item_days LEFT JOIN bounds USING (day)
),
-- Newcomers who take the same item, beyond the most rows that it had on a day before.
rushes AS (
    SELECT day, greatest(max(newcomers - before), 0) AS newcomers
    FROM (
        SELECT
            day, item_id, count(*) FILTER (WHERE (user_days.last >= quarter) IS NOT TRUE) AS newcomers
        FROM pair_days JOIN user_days USING (day, user_id) JOIN bounds USING (day)
        GROUP BY ALL
    )
    JOIN (
        SELECT
            day,
            item_id,
            coalesce(max(n) OVER (
                PARTITION BY item_id ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ), 0) AS before
        FROM item_days
    ) USING (day, item_id)
    GROUP BY day
),
day_rows AS (SELECT day, count(*) AS n FROM all_rows GROUP BY day),
months AS (
    SELECT bounds.day, sum(n) AS n
    FROM bounds JOIN day_rows ON day_rows.day >= month AND day_rows.day < bounds.day
    GROUP BY ALL
),
-- Every user counts once, however many rows are theirs: one of them cannot move a mean.
tastes AS (
    SELECT
        day,
        user_id,
        avg((known IS NOT TRUE)::INTEGER) AS new_items,
        avg((last IS NOT NULL AND last >= quarter)::INTEGER) AS taken_again,
        avg(ln((item_rows.n + 0.5) / (coalesce(months.n, 0) + 1))) FILTER (WHERE known) AS log_item_share
    FROM pair_days
    JOIN bounds USING (day)
    JOIN item_rows USING (day, item_id)
    LEFT JOIN months USING (day)
    GROUP BY day, user_id
),
of_users AS (
    SELECT
        day,
        count(*) AS users,
        exp(avg(ln(n))) AS rows_per_user,
        max(n) / sum(n) AS top_user_share,
        1 - count(*) FILTER (WHERE last >= quarter) / count(*) AS new_user_share,
        count(*) FILTER (WHERE last >= week)
            / greatest(count(*) FILTER (WHERE last >= quarter), 1) AS lately_share,
        avg(new_items) AS new_item_share,
        avg(taken_again) FILTER (WHERE last >= quarter) AS taken_again_share,
        1e6 * exp(avg(log_item_share)) AS item_popularity
    FROM user_days JOIN bounds USING (day) JOIN tastes USING (day, user_id)
    GROUP BY day
),
of_rows AS (
    SELECT day, sum(n)::BIGINT AS rows, 1 - count(*) / sum(n) AS repeated_share
    FROM (SELECT day, count(*) AS n FROM today GROUP BY day, user_id, item_id, event_time)
    GROUP BY day
),
of_hours AS (
    SELECT day, list(users ORDER BY hour) AS hours
    FROM (
        SELECT bounds.day, hour, count(DISTINCT user_id) AS users
        FROM bounds
        CROSS JOIN (SELECT range AS hour FROM range(24))
        LEFT JOIN today ON today.day = bounds.day AND hour(event_time) = hour
        GROUP BY ALL
    )
    GROUP BY day
),
of_lines AS (
    SELECT
        delivery_day AS day,
        sum(rows_rejected - rows_set_aside) / greatest(sum(lines - header_lines), 1)
            AS rejected_share
    FROM ingest_ledger
    GROUP BY delivery_day
)
SELECT
    day,
    days_before,
    of_rows.* EXCLUDE (day),
    of_users.* EXCLUDE (day),
    newcomers / users AS rush_share,
    rejected_share,
    hours
FROM bounds
LEFT JOIN of_rows USING (day)
LEFT JOIN of_users USING (day)
LEFT JOIN rushes USING (day)
LEFT JOIN of_lines USING (day)
LEFT JOIN of_hours USING (day)
ORDER BY day
