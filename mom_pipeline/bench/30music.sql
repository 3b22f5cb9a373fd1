SELECT user_id::VARCHAR AS users, song_id::VARCHAR AS items, ts::BIGINT AS times
FROM read_parquet($path)
ORDER BY times, users, items
