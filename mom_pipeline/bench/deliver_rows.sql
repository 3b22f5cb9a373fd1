INSERT INTO raw_logs
SELECT
    $day || '.csv', row_number() OVER (), $day::DATE, to_timestamp(seconds), user_id, item_id, 1
FROM (
    SELECT
        unnest($users::VARCHAR[]) AS user_id,
        unnest($items::VARCHAR[]) AS item_id,
        unnest($times::BIGINT[]) AS seconds
)
