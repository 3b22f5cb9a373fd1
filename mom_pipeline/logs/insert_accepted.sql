INSERT INTO raw_logs
{events}
SELECT $source_file, line, $day, event_time, user_id, item_id, weight
FROM events WHERE reason IS NULL
