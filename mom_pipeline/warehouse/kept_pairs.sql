-- Pairs of items that are not rare, in order.
WITH pairs AS MATERIALIZED ({pairs})
SELECT * FROM pairs SEMI JOIN (
    SELECT item_position FROM pairs GROUP BY ALL HAVING count(*) >= $min_item_users
) USING (item_position)
ORDER BY user_position, item_position
