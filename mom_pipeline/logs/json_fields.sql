SELECT
    line,
    text,
    CASE
        WHEN text IS NULL THEN 'empty line'
        WHEN starts_with(text, $mark) THEN split_part(text, $mark, 2)
        WHEN object IS NULL THEN 'not a JSON object'
        -- In so many keys none is given twice, unless another is missing: that has its own reason.
        WHEN CASE WHEN len(keys) > $n_required THEN list_unique(keys) < len(keys) END
            THEN 'a key is given twice'
        WHEN json_type(object, $user_at) NOT IN ('VARCHAR', 'NULL')
            AND NOT regexp_full_match(user_id, '-?[0-9]+') THEN 'user is not text or a whole number'
        WHEN json_type(object, $item_at) NOT IN ('VARCHAR', 'NULL')
            AND NOT regexp_full_match(item_id, '-?[0-9]+') THEN 'item is not text or a whole number'
        WHEN regexp_matches(user_id, '[\x00-\x1f]') OR regexp_matches(item_id, '[\x00-\x1f]')
            THEN 'control character'
    END AS format_problem,
    user_id,
    item_id,
    json_extract_string(object, $timestamp_at) AS time_text,
    {weight} AS weight_text,
    {excluded} AS excluded
FROM (
    SELECT
        line,
        text,
        object,
        list_filter(json_keys(object), lambda key: list_contains($mapped, key)) AS keys,
        json_extract_string(object, $user_at) AS user_id,
        json_extract_string(object, $item_at) AS item_id
    FROM (
        SELECT
            rowid + 1 AS line,
            text,
            CASE WHEN json_valid(text) THEN CASE WHEN json_type(text) = 'OBJECT' THEN text END END
                AS object
        FROM staged_lines
    )
)
