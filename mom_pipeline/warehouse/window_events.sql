-- Events of the window that count, with the positions of their user and item. Weights in millionths:
-- whole numbers, whose sums do not depend on their order.
SELECT
    users.position::INTEGER AS user_position,
    items.position::INTEGER AS item_position,
    (logs.weight * 1000000)::BIGINT AS millionths
FROM admitted_logs AS logs
JOIN user_dictionary AS users USING (user_id)
JOIN item_dictionary AS items USING (item_id)
WHERE logs.delivery_day <= $day::DATE
    AND logs.event_time >= $begin::TIMESTAMPTZ
    AND logs.event_time < $end::TIMESTAMPTZ
