"""What was made of each day: typed reads and writes over the ledger and the arrays."""
