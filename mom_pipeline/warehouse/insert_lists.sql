INSERT INTO recommendations BY NAME
SELECT
    $day::DATE AS day,
    $model AS model,
    users.user_id,
    rank,
    items.item_id,
    score,
    CASE kind
        WHEN $component THEN concat('component ', cause + 1)
        WHEN $item THEN concat('item ', causes.item_id)
        ELSE 'popular'
    END AS reason
FROM new_lists
JOIN user_dictionary AS users ON users.position = user_position
JOIN item_dictionary AS items ON items.position = item_position
LEFT JOIN item_dictionary AS causes ON kind = $item AND causes.position = cause
WHERE users.user_id <> '' -- a user who was erased
ORDER BY user_position, rank;
