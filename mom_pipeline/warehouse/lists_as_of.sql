-- Every user's newest list up to a day, with the names of the items.
SELECT day, model, user_id, rank, item_id, coalesce(item_name, '') AS item_name, score, reason
FROM recommendations
SEMI JOIN (
    SELECT user_id, max(day) AS day FROM recommendations WHERE day <= $day::DATE GROUP BY user_id
) USING (user_id, day)
LEFT JOIN item_names USING (item_id)
ORDER BY user_id, rank
