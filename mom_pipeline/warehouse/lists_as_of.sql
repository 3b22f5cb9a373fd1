-- Every user's newest list up to a day.
SELECT day, model, user_id, rank, item_id, score, reason
FROM recommendations
WHERE day <= $day::DATE
QUALIFY day = max(day) OVER (PARTITION BY user_id)
ORDER BY user_id, rank
