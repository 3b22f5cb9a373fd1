-- Pairs delivered after one day and up to another, of ids that were known by then; see
-- `window_events.sql`.
SELECT DISTINCT
    users.position::INTEGER AS user_position,
    items.position::INTEGER AS item_position,
    1000000 AS millionths,
    1 AS last_day
FROM admitted_logs
JOIN user_dictionary AS users USING (user_id)
JOIN item_dictionary AS items USING (item_id)
WHERE weight > 0 AND delivery_day > $after::DATE AND delivery_day <= $until::DATE
    AND users.first_day <= $until::DATE AND items.first_day <= $until::DATE
