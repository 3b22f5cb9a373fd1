-- The warehouse. No indexes: files are replaced as a whole and read set-wise, and DuckDB's
-- min/max per row group finds a file or a day because rows are stored file by file.

-- The format of the data folder.
CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL);

CREATE TABLE IF NOT EXISTS raw_logs (
    source_file  VARCHAR        NOT NULL,
    line         BIGINT         NOT NULL,  -- physical line in the file; row number in Parquet
    delivery_day DATE           NOT NULL,
    event_time   TIMESTAMPTZ    NOT NULL,
    user_id      VARCHAR        NOT NULL,
    item_id      VARCHAR        NOT NULL,
    weight       DECIMAL(18, 6) NOT NULL   -- decimal: its sums do not depend on their order; below 0: a return
);

CREATE TABLE IF NOT EXISTS ingest_ledger (
    source_file    VARCHAR     NOT NULL,
    delivery_day   DATE        NOT NULL,
    size_bytes     BIGINT      NOT NULL,
    sha256         VARCHAR     NOT NULL,
    lines          BIGINT      NOT NULL,  -- = header_lines + rows_accepted + rows_rejected
    header_lines   BIGINT      NOT NULL,  -- without a row: headers, blank and continued lines
    rows_accepted  BIGINT      NOT NULL,
    rows_rejected  BIGINT      NOT NULL,
    rows_set_aside BIGINT      NOT NULL,  -- the part of rows_rejected that the source excluded
    reject_reasons VARCHAR     NOT NULL,  -- JSON: reason -> rows
    settings       VARCHAR     NOT NULL,  -- JSON: how the lines were read
    ingested_at    TIMESTAMPTZ NOT NULL
);

CREATE TABLE IF NOT EXISTS quarantine (
    source_file  VARCHAR NOT NULL,
    line         BIGINT  NOT NULL,
    delivery_day DATE    NOT NULL,
    text         VARCHAR NOT NULL,
    reason       VARCHAR NOT NULL
);

-- Files that were not taken as they are: refused by the ingest, or dropped by a person. They are
-- not looked at again until their contents or the rules change.
CREATE TABLE IF NOT EXISTS refused_files (
    source_file  VARCHAR     NOT NULL,
    delivery_day DATE        NOT NULL,
    contents     VARCHAR     NOT NULL,  -- sha256, or what is known of a file that cannot be read
    rules        VARCHAR     NOT NULL,  -- fingerprint of the settings that it was read by
    reason       VARCHAR     NOT NULL,
    dropped      BOOLEAN     NOT NULL,  -- by a person
    refused_at   TIMESTAMPTZ NOT NULL
);

-- Figures of each delivery day, by which the gate admits it and the days after it.
CREATE TABLE IF NOT EXISTS day_figures (
    day     DATE    NOT NULL,
    figures VARCHAR NOT NULL   -- JSON: name -> number
);

-- Delivery days that the gate excluded. Their rows stay in raw_logs.
CREATE TABLE IF NOT EXISTS excluded_days (
    day    DATE    NOT NULL,
    reason VARCHAR NOT NULL
);

-- Delivery days that a person accepted, whatever the gate says, as long as their files are these.
CREATE TABLE IF NOT EXISTS accepted_days (
    day         DATE        NOT NULL,
    contents    VARCHAR     NOT NULL,
    accepted_at TIMESTAMPTZ NOT NULL
);

-- The rows that count.
CREATE OR REPLACE VIEW admitted_logs AS
SELECT * FROM raw_logs WHERE delivery_day NOT IN (SELECT day FROM excluded_days);

-- Positions are append-only, so that yesterday's arrays stay valid.
CREATE TABLE IF NOT EXISTS user_dictionary (
    position  BIGINT  NOT NULL,
    user_id   VARCHAR NOT NULL,
    first_day DATE    NOT NULL
);

CREATE TABLE IF NOT EXISTS item_dictionary (
    position  BIGINT  NOT NULL,
    item_id   VARCHAR NOT NULL,
    first_day DATE    NOT NULL
);

-- The lists of the model in use, everybody's, replaced as a whole when another one is.
CREATE TABLE IF NOT EXISTS recommendations (
    model   VARCHAR NOT NULL,  -- version of the model in use
    user_id VARCHAR NOT NULL,
    rank    INTEGER NOT NULL,  -- 1 is the best
    item_id VARCHAR NOT NULL,
    score   DOUBLE  NOT NULL,
    reason  VARCHAR NOT NULL   -- 'component 3', 'item <id>' of the history, 'rising' or 'popular'
);

CREATE TABLE IF NOT EXISTS evaluation_metrics (
    day             DATE    NOT NULL,  -- last day of the test period
    model_day       DATE    NOT NULL,
    ranking         VARCHAR NOT NULL,  -- of the model, or 'popularity'
    cutoff          INTEGER NOT NULL,
    precision_at_k  DOUBLE  NOT NULL,
    recall_at_k     DOUBLE  NOT NULL,
    map_at_k        DOUBLE  NOT NULL,
    ndcg_at_k       DOUBLE  NOT NULL,
    users           INTEGER NOT NULL
);

-- The ledger of what was made: one row for each asset and day, written in the transaction that
-- publishes it. Arrays are immutable files named by version; the row is the pointer to them.
CREATE TABLE IF NOT EXISTS materializations (
    asset    VARCHAR     NOT NULL,
    day      DATE        NOT NULL,
    version  VARCHAR     NOT NULL,  -- of the content
    inputs   VARCHAR     NOT NULL,  -- JSON: name -> the version that it was made from
    settings VARCHAR     NOT NULL,  -- fingerprint of the settings that decide the content
    code     VARCHAR     NOT NULL,
    sound    BOOLEAN     NOT NULL,  -- whether its blocking checks passed
    facts    VARCHAR     NOT NULL,  -- JSON: figures worth keeping when the arrays are gone
    made_at  TIMESTAMPTZ NOT NULL
);

-- Erasures that were begun: that receipts are gone is seen, also where the whole folder is.
CREATE TABLE IF NOT EXISTS erasures (receipt VARCHAR NOT NULL);

-- Runs: that each began, and how it ended. One without an end was killed, or goes on.
CREATE TABLE IF NOT EXISTS runs (
    run_id    VARCHAR     NOT NULL,
    first_day DATE        NOT NULL,
    last_day  DATE        NOT NULL,
    began_at  TIMESTAMPTZ NOT NULL,
    ended_at  TIMESTAMPTZ,
    failure   VARCHAR              -- asset and reason; '' for a run that succeeded
);
