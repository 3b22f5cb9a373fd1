-- Lines without a day go to the log of the day before them in their file, set aside with the reason.
UPDATE dataset_events SET day = placed.day, exclude = coalesce(problem, exclude)
FROM (
    SELECT rest.rowid AS of_row, coalesce(known.day, (SELECT min(day) FROM dataset_events)) AS day
    FROM dataset_events AS rest
    ASOF LEFT JOIN (FROM dataset_events WHERE day IS NOT NULL) AS known
        ON rest.file = known.file AND rest.line >= known.line
    WHERE rest.day IS NULL
) AS placed
WHERE dataset_events.rowid = of_row
