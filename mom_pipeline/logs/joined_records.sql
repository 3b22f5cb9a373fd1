-- Records in quotes that go on over line ends (RFC 4180): from a line with an odd number of quotes
-- to the next such line, where the two make a record. What swallows a whole record in between is
-- a quote that was never closed.
WITH odd AS (
    SELECT rowid AS first, lead(rowid) OVER (ORDER BY rowid) AS last
    FROM staged_lines
    WHERE contains(text, '"') AND (length(text) - length(replace(text, '"', ''))) % 2 = 1
),
joined AS (
    SELECT
        first,
        last,
        string_agg(coalesce(text, ''), chr(10) ORDER BY rowid) AS record,
        coalesce(bool_or(len(string_split(text, $delimiter)) = $n_fields)
            FILTER (WHERE rowid > first AND rowid < last), false) AS swallows
    FROM odd
    JOIN staged_lines ON rowid BETWEEN first AND last
    WHERE last - first < $longest
    GROUP BY ALL
),
whole AS (
    SELECT first, last, record
    FROM joined
    WHERE NOT swallows AND NOT contains(record, $mark)
        AND regexp_full_match($delimiter || record, $record)
        AND len(regexp_extract_all($delimiter || record, $field)) = $n_fields
)
SELECT * FROM whole WHERE first NOT IN (SELECT last FROM whole)
