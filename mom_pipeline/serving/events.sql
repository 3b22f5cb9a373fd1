-- What a shop told. Its own database: the warehouse has one writer, and it may work for an hour.
CREATE TABLE IF NOT EXISTS events (
    id   TEXT NOT NULL PRIMARY KEY,
    day  TEXT NOT NULL,  -- that it came on
    time REAL NOT NULL,  -- seconds since 1970
    user TEXT NOT NULL,
    item TEXT NOT NULL,
    type TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_by_day ON events (day);
CREATE INDEX IF NOT EXISTS events_by_user ON events (user);

CREATE TABLE IF NOT EXISTS shown (
    id      INTEGER PRIMARY KEY,
    day     TEXT    NOT NULL,
    time    REAL    NOT NULL,
    user    TEXT    NOT NULL,
    item    TEXT    NOT NULL,
    place   INTEGER NOT NULL,  -- 1 is the best
    version TEXT    NOT NULL,  -- of the model
    trial   TEXT    NOT NULL   -- the version that was on trial then, or ''
);
CREATE INDEX IF NOT EXISTS shown_by_day ON shown (day);
CREATE INDEX IF NOT EXISTS shown_by_user ON shown (user, item);

-- Which of these were followed by an event, of each type.
CREATE TABLE IF NOT EXISTS followed (
    shown INTEGER NOT NULL,
    type  TEXT    NOT NULL,
    PRIMARY KEY (shown, type)
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS shown_removed AFTER DELETE ON shown BEGIN
    DELETE FROM followed WHERE shown = old.id;
END;

-- Days up to `closed` take no more events; those up to `logged` are in the log files.
CREATE TABLE IF NOT EXISTS days (closed TEXT NOT NULL, logged TEXT NOT NULL);
INSERT INTO days SELECT '', '' WHERE NOT EXISTS (SELECT * FROM days);
