INSERT INTO ingest_ledger (
    source_file, delivery_day, size_bytes, sha256, lines, header_lines,
    rows_accepted, rows_rejected, rows_set_aside, reject_reasons, settings, ingested_at
)
VALUES (
    $source_file, $delivery_day::DATE, $size_bytes, $sha256, $lines, $header_lines,
    $rows_accepted, $rows_rejected, $rows_set_aside, $reject_reasons, $settings, now()
);
