DELETE FROM dataset_events
WHERE problem IS NULL AND item_id NOT IN (
    SELECT item_id FROM dataset_events GROUP BY item_id HAVING count(*) >= $min_clicks
);
