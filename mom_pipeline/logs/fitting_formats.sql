-- How many of some texts each expression reads as a time within bounds, and how many of these are not
-- before the one before them.
WITH times AS (SELECT generate_subscripts($v, 1) AS line, unnest($v) AS time_text),
parsed AS (
    SELECT line, generate_subscripts(ts, 1) AS format, unnest(ts) AS t
    FROM (SELECT line, [{parsed}] AS ts FROM times)
)
SELECT format, count(*), count(*) FILTER (WHERE t >= before)
FROM (
    SELECT format, t, lag(t) OVER (PARTITION BY format ORDER BY line) AS before
    FROM parsed WHERE t >= $first::TIMESTAMPTZ AND t < $last::TIMESTAMPTZ
)
GROUP BY format
ORDER BY format
