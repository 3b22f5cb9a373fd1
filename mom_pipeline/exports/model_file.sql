-- What a model's file answers by: `scores` are those of core/ranking/score.py, in double precision.
-- No name has a catalogue before it, so the file answers under whatever name it has.

-- Every item for a person: what each part and the item alone add. hide: the history is not listed.
CREATE MACRO scores(who, hide) AS TABLE
WITH person AS (SELECT * FROM users WHERE user_id = who),
own AS (
    SELECT h.y, h.times, h.day, 2 ** ((h.day - max(h.day) OVER ()) / 30) AS aged
    FROM histories AS h WHERE h.u = (SELECT u FROM person)
),
sums AS (
    SELECT p.y, sum(p.g / sqrt(greatest(i.users, 1))) AS pairs, sum(p.b * own.aged) AS ease
    FROM pairs AS p JOIN own ON p.h = own.y JOIN items AS i ON i.y = own.y
    GROUP BY p.y
),
raw AS (
    SELECT i.*, own.times, own.day,
        coalesce(s.pairs, 0) / sqrt(greatest(i.users, 1)) AS raw_pairs,
        coalesce(s.ease, 0) + i.rest * (SELECT sum(aged) FROM own) AS raw_ease
    FROM items AS i LEFT JOIN sums AS s USING (y) LEFT JOIN own USING (y)
),
largest AS (
    SELECT
        coalesce(max(raw_pairs) FILTER (NOT hide OR times IS NULL), 0) AS pairs,
        coalesce(max(raw_ease) FILTER (NOT hide OR times IS NULL), 0) AS ease,
        greatest(max(raw_pairs) * 2 ** -23, 1e-30) AS least_pairs,
        greatest(max(raw_ease) * 2 ** -23, 1e-30) AS least_ease
    FROM raw
),
best AS (
    SELECT CASE WHEN pairs > least_pairs THEN pairs ELSE 1 END AS pairs,
        CASE WHEN ease > least_ease THEN ease ELSE 1 END AS ease
    FROM largest
)
SELECT
    r.item_id, r.name, r.y, r.candidate, r.times IS NOT NULL AS seen, r.users, r.rest,
    r.raw_pairs, r.raw_ease,
    p.pairs * ln(1 + greatest(r.raw_pairs, 0) / (0.1 * best.pairs)) / ln(11) AS pairs,
    p.ease * ln(1 + greatest(r.raw_ease, 0) / (0.1 * best.ease)) / ln(11) AS ease,
    r.popularity + p.length * r.popularity_slope AS popularity,
    r.trend + p.length * r.trend_slope AS trend,
    CASE WHEN hide OR r.times IS NULL THEN 0 ELSE
        p.had + p.times * ln(greatest(r.times, 1))
        + p.since * ln(1 + greatest((SELECT newest FROM model) - r.day, 0)) END AS own
FROM raw AS r, person AS p, best
WHERE EXISTS (FROM own);

CREATE MACRO recommend(who, n := 20) AS TABLE
WITH listed AS (
    SELECT item_id, name, y, pairs + ease + popularity + trend + own AS score
    FROM scores(who, (SELECT exclude_seen FROM model))
    WHERE candidate AND NOT (seen AND (SELECT exclude_seen FROM model))
    UNION ALL
    SELECT item_id, name, y, share FROM items
    WHERE candidate AND NOT EXISTS (
        FROM histories WHERE u = (SELECT u FROM users WHERE user_id = who)
    )
)
SELECT row_number() OVER (ORDER BY score DESC, y) AS rank, item_id, name, score
FROM listed QUALIFY rank <= n ORDER BY rank;

CREATE MACRO "similar"(what, n := 20) AS TABLE
WITH this AS (FROM items WHERE item_id = what),
listed AS (
    SELECT i.item_id, i.name, i.y,
        p.g / sqrt(greatest(this.users, 1) * greatest(i.users, 1)) AS score
    FROM pairs AS p, this, items AS i
    WHERE p.h = (SELECT y FROM this) AND i.y = p.y AND i.y <> this.y AND i.candidate AND p.g > 0
)
SELECT row_number() OVER (ORDER BY score DESC, y) AS rank, item_id, name, score
FROM listed QUALIFY rank <= n ORDER BY rank;

-- A score taken apart twice: the parts add up to it, and the history to pairs and ease.
CREATE MACRO explain(who, what) AS TABLE
WITH history AS (
    SELECT h.y, 2 ** ((h.day - max(h.day) OVER ()) / 30) AS aged
    FROM histories AS h WHERE h.u = (SELECT u FROM users WHERE user_id = who)
),
this AS (
    FROM scores(who, (SELECT exclude_seen FROM model) AND NOT EXISTS (
        FROM history WHERE y = (SELECT y FROM items WHERE item_id = what)
    ))
    WHERE item_id = what
)
SELECT 'part' AS kind, unnest(['pairs', 'ease', 'popularity', 'trend', 'own']) AS name,
    unnest([pairs, ease, popularity, trend, own]) AS contribution
FROM this
UNION ALL
SELECT 'history', i.item_id,
    CASE WHEN raw_pairs > 0 THEN t.pairs / raw_pairs ELSE 0 END * coalesce(p.g, 0)
        / sqrt(greatest(t.users, 1) * greatest(i.users, 1))
    + CASE WHEN raw_ease > 0 THEN t.ease / raw_ease ELSE 0 END * (coalesce(p.b, 0) + t.rest) * h.aged
FROM this AS t, history AS h JOIN items AS i USING (y)
LEFT JOIN pairs AS p ON p.h = h.y AND p.y = (SELECT y FROM this)
ORDER BY kind DESC, contribution DESC;
