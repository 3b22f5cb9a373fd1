SELECT
    $file,
    line,
    event_time::DATE AS day,
    f[1] AS user_id,
    f[2] AS item_id,
    CASE WHEN event_time IS NULL THEN text ELSE strftime(event_time, '%Y-%m-%dT%H:%M:%S') END AS time_text,
    '1' AS weight,
    '' AS exclude,
    '' AS item_name,
    '' AS item_group
FROM (
    SELECT
        line,
        text,
        f,
        CASE
            WHEN len(f) = 4 AND f[1] <> '' AND f[2] <> '' AND NOT starts_with(text, $mark)
                AND regexp_full_match(f[4], '[0-9]{1,12}')
                THEN make_timestamp(1000000 * f[4]::BIGINT)
        END AS event_time
    FROM (SELECT rowid + 1 AS line, text, string_split(text, '::') AS f FROM staged_lines)
)
