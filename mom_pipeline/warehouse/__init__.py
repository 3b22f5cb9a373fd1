"""The DuckDB file: connection, schema, the matrix as of a day, tables of lists and metrics."""
