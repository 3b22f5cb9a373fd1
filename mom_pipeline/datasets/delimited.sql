SELECT
    $file,
    line,
    event_time::DATE AS day,
    user_id,
    item_id,
    CASE WHEN event_time IS NULL THEN text ELSE strftime(event_time, $time_format) END,
    weight,
    exclude,
    item_name,
    item_group
FROM (
    SELECT
        line,
        text,
        CASE
            WHEN len(f) = $n_fields AND NOT starts_with(text, $mark) AND NOT ({quotes_broken})
                THEN {time}
        END AS event_time,
        {user} AS user_id,
        {item} AS item_id,
        {weight} AS weight,
        {exclude} AS exclude,
        {item_name} AS item_name,
        {item_group} AS item_group
    FROM (
        SELECT rowid + 1 AS line, text, {split} AS f
        FROM staged_lines
        WHERE rowid >= $header_lines
    )
)
