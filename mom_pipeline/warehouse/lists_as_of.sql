-- Every user's newest list up to a day, with the names of the items.
SELECT day, model, user_id, rank, item_id, coalesce(item_name, '') AS item_name, score, reason
FROM recommendations
LEFT JOIN item_names USING (item_id)
WHERE day <= $day::DATE
QUALIFY day = max(day) OVER (PARTITION BY user_id)
ORDER BY user_id, rank
