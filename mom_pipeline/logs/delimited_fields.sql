-- The fields `f` of every line of delimited text that carries a row, with a reason where it has
-- none. Quotes are as in RFC 4180. Empty fields too many are none, and fields behind those that are
-- read may be missing.
SELECT
    line,
    text,
    CASE
        WHEN starts_with(text, $mark) THEN split_part(text, $mark, 2)
        WHEN $quoted AND contains(text, '"') AND NOT regexp_full_match($delimiter || text, $record)
            THEN 'unbalanced quote'
        WHEN len(f) < least($n_fields, $n_used + 1)
            OR len(f) > $n_fields AND array_to_string(f[$n_fields + 1:], '') <> ''
            THEN concat('expected ', $n_fields, ' fields, found ', len(f))
    END AS format_problem,
    f
FROM (
    SELECT
        rowid + 1 AS line,
        text,
        CASE
            WHEN $quoted AND contains(text, '"') THEN list_transform(
                regexp_extract_all($delimiter || text, $field, 1),
                lambda field: CASE
                    WHEN field[1] = '"' THEN replace(field[2:-2], '""', '"')
                    ELSE field
                END
            )
            ELSE string_split(text, $delimiter)
        END AS f
    FROM staged_lines
    WHERE text IS NOT NULL
)
