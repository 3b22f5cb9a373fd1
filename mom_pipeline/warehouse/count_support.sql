CREATE OR REPLACE TEMP TABLE support_before AS
SELECT item_id, count(*) AS n_users
FROM (
    SELECT DISTINCT user_id, item_id
    FROM raw_logs
    WHERE delivery_day <= $day::DATE
        AND event_time >= $begin::TIMESTAMPTZ
        AND event_time < $end::TIMESTAMPTZ
)
GROUP BY item_id;
