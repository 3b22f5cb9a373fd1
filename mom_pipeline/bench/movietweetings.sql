SELECT column0 AS users, column1 AS items, column3::BIGINT AS times
FROM read_csv($path, delim = '::', header = false, all_varchar = true)
ORDER BY times, users, items
