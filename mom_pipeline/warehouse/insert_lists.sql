INSERT INTO recommendations BY NAME
SELECT
    $model AS model,
    users.id AS user_id,
    rank,
    items.id AS item_id,
    score,
    CASE kind
        WHEN $component THEN concat('component ', cause + 1)
        WHEN $item THEN concat('item ', causes.id)
        WHEN $rising THEN 'rising'
        ELSE 'popular'
    END AS reason
FROM new_lists
JOIN list_users AS users ON users.position = user_position
JOIN list_items AS items ON items.position = item_position
LEFT JOIN list_items AS causes ON kind = $item AND causes.position = cause
ORDER BY user_position, rank;
