CREATE TABLE dataset_events (
    file      VARCHAR NOT NULL,
    line      BIGINT  NOT NULL,
    day       DATE,              -- NULL: the line is not in the published format
    user_id   VARCHAR,
    item_id   VARCHAR,
    time_text VARCHAR,
    weight    VARCHAR,
    exclude   VARCHAR,
    item_name  VARCHAR,          -- "": not named here
    item_group VARCHAR
);
