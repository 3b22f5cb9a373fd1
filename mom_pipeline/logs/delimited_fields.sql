-- The fields `f` of every line of delimited text, with a reason where it has none. Quotes are as
-- in RFC 4180, within one line.
SELECT
    line,
    text,
    CASE
        WHEN text IS NULL THEN 'empty line'
        WHEN starts_with(text, $mark) THEN split_part(text, $mark, 2)
        WHEN $quoted AND contains(text, '"') AND NOT regexp_full_match($delimiter || text, $record)
            THEN 'unbalanced quote'
        WHEN len(f) <> $n_fields THEN concat('expected ', $n_fields, ' fields, found ', len(f))
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
    WHERE rowid >= $header_lines
)
