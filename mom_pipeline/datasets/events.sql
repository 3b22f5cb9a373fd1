-- Events of the lines of a file: a line that is not empty and not in the format has no day.
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
        CASE WHEN format_problem IS NULL THEN {time} END AS event_time,
        {user} AS user_id,
        {item} AS item_id,
        {weight} AS weight,
        {exclude} AS exclude,
        {item_name} AS item_name,
        {item_group} AS item_group
    FROM ({fields})
    WHERE text IS NOT NULL
)
