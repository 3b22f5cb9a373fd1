SELECT CustomerID AS users, StockCode AS items, epoch(InvoiceDate::TIMESTAMP)::BIGINT AS times
FROM read_csv($path, all_varchar = true)
WHERE CustomerID IS NOT NULL AND Quantity::INTEGER > 0 AND InvoiceNo NOT LIKE 'C%'
ORDER BY times, users, items
