-- Deliveries up to a day whose ids the dictionaries do not hold yet.
CREATE OR REPLACE TEMP TABLE new_sources AS
SELECT source_file, sha256, settings
FROM ingest_ledger
WHERE delivery_day <= $day
    AND delivery_day NOT IN (SELECT day FROM held_days)
EXCEPT
SELECT source_file, sha256, settings
FROM dictionary_sources;
