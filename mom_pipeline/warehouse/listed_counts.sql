-- In how many users' newest lists up to a day each item is.
SELECT position, count(*) AS lists
FROM recommendations
SEMI JOIN (
    SELECT user_id, max(day) AS day FROM recommendations WHERE day <= $day::DATE GROUP BY user_id
) USING (user_id, day)
JOIN item_dictionary USING (item_id)
GROUP BY position
ORDER BY position
