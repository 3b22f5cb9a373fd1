-- One JSON object of texts per row, so that Parquet takes the way of JSON Lines.
CREATE OR REPLACE TEMP TABLE staged_lines AS
SELECT to_json(events)::VARCHAR AS text
FROM (SELECT {texts} FROM read_parquet($path, hive_partitioning = false)) AS events;
