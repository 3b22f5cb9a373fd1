-- Of each event type, the share of its pairs of user and item up to the cut that the rarest type
-- followed for after it: how well it predicts that one on later days.
WITH events AS (
    SELECT user_id, item_id, event, day FROM dataset_events
    WHERE problem IS NULL AND exclude = '' AND event NOT IN (SELECT unnest($returns::VARCHAR[]))
),
cut AS (SELECT quantile_disc(day, 0.7) AS day FROM events),
rarest AS (SELECT event FROM events GROUP BY ALL ORDER BY count(*), event LIMIT 1),
later AS (
    SELECT DISTINCT user_id, item_id, true AS followed
    FROM events WHERE event = (FROM rarest) AND day > (FROM cut)
)
SELECT event, count(*) AS pairs, avg(coalesce(followed, false)::INTEGER) AS rate
FROM (SELECT DISTINCT event, user_id, item_id FROM events WHERE day <= (FROM cut))
LEFT JOIN later USING (user_id, item_id)
GROUP BY ALL
ORDER BY rate, event
