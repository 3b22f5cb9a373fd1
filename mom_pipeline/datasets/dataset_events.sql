CREATE TABLE dataset_events (
    file      VARCHAR NOT NULL,
    line      BIGINT  NOT NULL,
    day       DATE,              -- NULL: no time was understood
    user_id   VARCHAR,
    item_id   VARCHAR,
    time_text VARCHAR,
    weight    VARCHAR,
    event     VARCHAR,           -- its type; "": the source has none
    problem   VARCHAR,           -- why the line is malformed; NULL: it is not
    exclude   VARCHAR,           -- why the source sets it aside; "": it does not
    item_name  VARCHAR,          -- "": not named here
    item_group VARCHAR
);
