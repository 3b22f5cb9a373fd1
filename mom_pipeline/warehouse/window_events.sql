-- Pairs of the window that count, with the positions of their user and item. Weights in millionths:
-- whole numbers, whose sums do not depend on their order. A return takes away what was taken before
-- it, and never more. The day of the last event is a number above 0, of days in UTC.
WITH events AS NOT MATERIALIZED (
    SELECT user_id, item_id, event_time, (weight * 1000000)::BIGINT AS millionths
    FROM admitted_logs
    WHERE delivery_day <= $day::DATE
        AND event_time >= $begin::TIMESTAMPTZ
        AND event_time < $end::TIMESTAMPTZ
),
returned AS (SELECT DISTINCT user_id, item_id FROM events WHERE millionths < 0),
kept AS (
    SELECT * FROM events ANTI JOIN returned USING (user_id, item_id)
    UNION ALL
    SELECT
        user_id,
        item_id,
        max(event_time) FILTER (WHERE millionths > 0),
        sum(millionths) - least(0, min(so_far)) AS left_over
    FROM (
        SELECT *, sum(millionths) OVER (
            PARTITION BY user_id, item_id ORDER BY event_time, millionths DESC
            ROWS UNBOUNDED PRECEDING
        ) AS so_far
        FROM events SEMI JOIN returned USING (user_id, item_id)
    )
    GROUP BY user_id, item_id
    HAVING left_over > 0
)
SELECT
    users.position::INTEGER AS user_position,
    items.position::INTEGER AS item_position,
    sum(millionths)::BIGINT AS millionths,
    greatest(max(epoch_ms(event_time)) // 86400000 + 1, 1)::INTEGER AS last_day
FROM kept
JOIN user_dictionary AS users USING (user_id)
JOIN item_dictionary AS items USING (item_id)
GROUP BY user_position, item_position
