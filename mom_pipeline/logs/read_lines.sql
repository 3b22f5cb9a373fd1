-- Physical lines, one row each, in the order of the file: rowid + 1 is the line number, outside
-- of a transaction.
-- The scan has left no control character but tab, newline and its own mark, so the
-- delimiter cannot occur, and quotes are not looked at here.
CREATE OR REPLACE TEMP TABLE staged_lines AS
SELECT text
FROM read_csv(
    $path,
    columns = {'text': 'VARCHAR'},
    auto_detect = false,
    header = false,
    delim = E'\x1f',
    quote = '',
    escape = '',
    comment = '',
    new_line = '\n',
    hive_partitioning = false,
    max_line_size = 4194304
);
