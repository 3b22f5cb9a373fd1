SELECT
    $file,
    rowid + 1 AS line,
    CASE
        WHEN regexp_full_match(text, '[^\t]+\t[^\t]+\t[1-9][0-9]{0,8}') AND NOT starts_with(text, $mark)
            THEN $day::DATE
    END AS day,
    split_part(text, E'\t', 1) AS user_id,
    split_part(text, E'\t', 2) AS item_id,
    CASE WHEN day IS NULL THEN text ELSE $day || 'T00:00:00' END AS time_text,
    split_part(text, E'\t', 3) AS weight,
    '' AS exclude,
    '' AS item_name,
    '' AS item_group
FROM staged_lines
