-- A late delivery can bring an id to an earlier day than the one it was first seen on. Its
-- position stays; the days from then on must be wide enough to hold it.
UPDATE {kind}_dictionary
SET first_day = earlier.first_day
FROM (
    SELECT {kind}_id, min(delivery_day) AS first_day
    FROM admitted_logs
    WHERE delivery_day <= $day::DATE
    GROUP BY {kind}_id
) AS earlier
WHERE {kind}_dictionary.{kind}_id = earlier.{kind}_id
    AND earlier.first_day < {kind}_dictionary.first_day;
