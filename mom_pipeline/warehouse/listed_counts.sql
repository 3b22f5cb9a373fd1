-- In how many users' newest lists up to a day each item is.
WITH newest AS (
    SELECT item_id
    FROM recommendations
    WHERE day <= $day::DATE
    QUALIFY day = max(day) OVER (PARTITION BY user_id)
)
SELECT position, count(*) AS lists
FROM newest
JOIN item_dictionary USING (item_id)
GROUP BY position
ORDER BY position
