-- Users whose filtered row differs between an earlier day (before) and a day (now): by new,
-- late or expired events, or because an item crossed the filter. Exact. Besides three scans of
-- the id columns, all work is on the users that the difference can touch.
WITH logs AS (
    SELECT
        user_id,
        item_id,
        weight,
        delivery_day,
        event_time,
        delivery_day <= $before_day::DATE
            AND event_time >= $before_begin::TIMESTAMPTZ
            AND event_time < $before_end::TIMESTAMPTZ AS was_in,
        delivery_day <= $day::DATE
            AND event_time >= $begin::TIMESTAMPTZ
            AND event_time < $end::TIMESTAMPTZ AS is_in
    FROM raw_logs
)
-- Users with an event that is in one of the two states only. The plain conditions follow from
-- the last one; they let DuckDB skip the row groups in which nothing can have changed.
, touched_users AS MATERIALIZED (
    SELECT DISTINCT user_id
    FROM logs
    WHERE (
            delivery_day > $before_day::DATE
            OR event_time < $begin::TIMESTAMPTZ
            OR event_time >= $before_end::TIMESTAMPTZ
        )
        AND was_in <> is_in
)
, touched_pairs AS MATERIALIZED (
    SELECT
        user_id,
        item_id,
        sum(weight) FILTER (WHERE was_in) AS weight_before,
        sum(weight) FILTER (WHERE is_in) AS weight_now
    FROM logs
    SEMI JOIN touched_users USING (user_id)
    WHERE was_in OR is_in
    GROUP BY ALL
)
-- Only touched users can change how many users an item has.
, support_change AS (
    SELECT
        item_id,
        count(weight_now) - count(weight_before) AS change
    FROM touched_pairs
    GROUP BY item_id
)
, moved_items AS MATERIALIZED (
    SELECT
        item_id,
        coalesce(n_users, 0) >= $min_item_users AS kept_before,
        coalesce(n_users, 0) + change >= $min_item_users AS kept_now
    FROM support_change
    LEFT JOIN support_before USING (item_id)
    WHERE change <> 0
)
, crossed_items AS MATERIALIZED (
    SELECT item_id FROM moved_items WHERE kept_before <> kept_now
)
-- Users who had or have an item that crossed, and whose own events stayed as they were.
, drawn_in_users AS MATERIALIZED (
    SELECT DISTINCT user_id
    FROM logs
    SEMI JOIN crossed_items USING (item_id)
    ANTI JOIN touched_users USING (user_id)
    WHERE was_in OR is_in
)
, drawn_in_pairs AS (
    SELECT user_id, item_id, sum(weight) AS weight_before, sum(weight) AS weight_now
    FROM logs
    SEMI JOIN drawn_in_users USING (user_id)
    WHERE was_in AND is_in
    GROUP BY ALL
)
, pairs AS (
    SELECT
        user_id,
        CASE WHEN coalesce(kept_before, n_users >= $min_item_users) THEN weight_before END
            AS weight_before,
        CASE WHEN coalesce(kept_now, n_users >= $min_item_users) THEN weight_now END
            AS weight_now
    FROM (FROM touched_pairs UNION ALL FROM drawn_in_pairs)
    LEFT JOIN moved_items USING (item_id)
    LEFT JOIN support_before USING (item_id)
)
, rows_of_users AS (
    SELECT
        user_id,
        count(weight_before) >= $min_user_items AS kept_before,
        count(weight_now) >= $min_user_items AS kept_now,
        bool_or(weight_before IS DISTINCT FROM weight_now) AS differs
    FROM pairs
    GROUP BY user_id
)
SELECT position
FROM rows_of_users
JOIN user_dictionary USING (user_id)
WHERE kept_before <> kept_now OR (kept_now AND differs)
ORDER BY position
