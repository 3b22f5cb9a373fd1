SELECT
    line,
    text,
    CASE
        WHEN text IS NULL THEN 'empty line'
        WHEN starts_with(text, $mark) THEN split_part(text, $mark, 2)
        WHEN {quotes_broken} THEN 'unbalanced quote'
        WHEN len(f) <> $n_fields THEN concat('expected ', $n_fields, ' fields, found ', len(f))
    END AS format_problem,
    f[$user_at] AS user_id,
    f[$item_at] AS item_id,
    f[$timestamp_at] AS time_text,
    {weight} AS weight_text,
    {excluded} AS excluded
FROM (
    SELECT rowid + 1 AS line, text, {split} AS f
    FROM staged_lines
    WHERE rowid > 0 -- the header
)
