-- Of every item the name, and the group, that most of its lines have; of equals the first by text.
WITH named AS (
    SELECT item_id, item_name, count(*) AS n
    FROM dataset_events WHERE item_name <> '' AND item_id <> '' GROUP BY ALL
),
grouped AS (
    SELECT item_id, item_group, count(*) AS n
    FROM dataset_events WHERE item_group <> '' AND item_id <> '' GROUP BY ALL
)
SELECT item_id, coalesce(item_name, ''), coalesce(item_group, '')
FROM (SELECT item_id, first(item_name ORDER BY n DESC, item_name) AS item_name FROM named GROUP BY item_id)
FULL JOIN (
    SELECT item_id, first(item_group ORDER BY n DESC, item_group) AS item_group FROM grouped GROUP BY item_id
) USING (item_id)
ORDER BY item_id
