-- Lines that are no events, by reason: malformed or not, how many, and the first of them.
SELECT
    coalesce(problem, exclude) AS reason,
    problem IS NOT NULL AS malformed,
    count(*) AS n,
    min_by(
        concat('line ', line, ': ', left(
            CASE WHEN day IS NULL THEN time_text
                ELSE concat_ws(', ', user_id, item_id, time_text, weight) END, 100)),
        (file, line), $n_examples) AS examples
FROM dataset_events
WHERE problem IS NOT NULL OR exclude <> ''
GROUP BY ALL
ORDER BY n DESC, reason
