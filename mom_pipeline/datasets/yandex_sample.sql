-- The sample is the users with the smallest md5 of seed and id: the same on every machine.
DELETE FROM dataset_events
WHERE problem IS NULL AND user_id NOT IN (
    SELECT user_id
    FROM (SELECT DISTINCT user_id FROM dataset_events WHERE problem IS NULL)
    ORDER BY md5($seed || ':' || user_id), user_id
    LIMIT $sample_users
);
