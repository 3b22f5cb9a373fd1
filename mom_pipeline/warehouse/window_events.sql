-- Pairs of the window that count, with the positions of their user and item. Weights in millionths:
-- whole numbers, whose sums do not depend on their order. The day of the last event is a number
-- above 0, of days in UTC.
SELECT
    users.position::INTEGER AS user_position,
    items.position::INTEGER AS item_position,
    sum((logs.weight * 1000000)::BIGINT)::BIGINT AS millionths,
    greatest(max(epoch_ms(logs.event_time)) // 86400000 + 1, 1)::INTEGER AS last_day
FROM admitted_logs AS logs
JOIN user_dictionary AS users USING (user_id)
JOIN item_dictionary AS items USING (item_id)
WHERE logs.delivery_day <= $day::DATE
    AND logs.event_time >= $begin::TIMESTAMPTZ
    AND logs.event_time < $end::TIMESTAMPTZ
GROUP BY user_position, item_position
ORDER BY user_position, item_position
