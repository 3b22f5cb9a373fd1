-- Clicks with the day and the user of their session. TimePassed is counted from the start of
-- the session in unstated units: it is taken as seconds of the day, so that order is kept.
WITH records AS (
    SELECT rowid + 1 AS line, text, string_split(text, E'\t') AS f
    FROM staged_lines
    WHERE text IS NOT NULL
)
, sessions AS (
    SELECT f[1] AS session_id, TRY_CAST(f[3] AS SMALLINT) AS day_number, f[4] AS user_id
    FROM records
    WHERE len(f) = 4 AND f[2] = 'M'
)
-- Every line that is no M, Q or T record: a click, or not in the format.
, clicks AS (
    SELECT line, text, f
    FROM records
    WHERE coalesce(NOT regexp_matches(text, '^[0-9]+\t(M|[0-9]+\t[QT])\t'), true)
)
SELECT
    $file,
    line,
    CASE
        WHEN NOT starts_with(text, $mark) AND len(f) = 5 AND f[3] = 'C' AND f[5] <> '' AND user_id <> ''
            AND day_number BETWEEN 1 AND 9999 AND TRY_CAST(f[2] AS BIGINT) >= 0
            THEN $before_first::DATE + day_number
    END AS day,
    user_id,
    f[5] AS item_id,
    CASE
        WHEN day IS NULL AND starts_with(text, $mark) THEN split_part(text, $mark, 3)
        WHEN day IS NULL THEN text
        ELSE strftime(day + to_seconds(least(TRY_CAST(f[2] AS BIGINT), 86399)), '%Y-%m-%dT%H:%M:%S')
    END AS time_text,
    '1' AS weight,
    '' AS event,
    CASE WHEN day IS NULL THEN 'not a record of the log' END AS problem,
    '' AS exclude,
    '' AS item_name,
    '' AS item_group
FROM clicks
LEFT JOIN sessions ON sessions.session_id = clicks.f[1]
