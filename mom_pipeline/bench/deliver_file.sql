INSERT INTO ingest_ledger
VALUES ($day || '.csv', $day::DATE, 0, '', $n, 0, $n, 0, 0, '{}', '{}', now())
