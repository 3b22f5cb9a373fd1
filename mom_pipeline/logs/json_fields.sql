-- The fields `f` of every line with a JSON object, by the paths of their keys: user and item first.
SELECT
    line,
    text,
    CASE
        WHEN starts_with(text, $mark) THEN split_part(text, $mark, 2)
        WHEN object IS NULL THEN 'not a JSON object'
        -- In so many keys none is given twice, unless another is missing: that has its own reason.
        WHEN CASE WHEN len(keys) > $n_required THEN list_unique(keys) < len(keys) END
            THEN 'a key is given twice'
        WHEN $exact_ids AND json_type(object, $paths[1]) NOT IN ('VARCHAR', 'NULL')
            AND NOT regexp_full_match(f[1], '-?[0-9]+') THEN 'user is not text or a whole number'
        WHEN $exact_ids AND json_type(object, $paths[2]) NOT IN ('VARCHAR', 'NULL')
            AND NOT regexp_full_match(f[2], '-?[0-9]+') THEN 'item is not text or a whole number'
        WHEN regexp_matches(f[1], '[\x00-\x1f]') OR regexp_matches(f[2], '[\x00-\x1f]')
            THEN 'control character'
    END AS format_problem,
    f
FROM (
    SELECT
        line,
        text,
        object,
        list_filter(json_keys(object), lambda key: list_contains($names, key)) AS keys,
        json_extract_string(object, $paths) AS f
    FROM (
        SELECT
            rowid + 1 AS line,
            text,
            CASE WHEN json_valid(text) THEN CASE WHEN json_type(text) = 'OBJECT' THEN text END END
                AS object
        FROM staged_lines WHERE text IS NOT NULL
    )
)
