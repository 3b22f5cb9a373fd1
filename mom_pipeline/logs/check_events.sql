-- Events of the staged lines. `fields` (line, text, format_problem, user_id, item_id,
-- time_text, weight_text, excluded) comes from the format of the file, event_time from the
-- declared timestamp format. A row with a reason is rejected with it.
, typed AS (
    SELECT
        line,
        text,
        format_problem,
        user_id,
        item_id,
        time_text,
        {event_time} AS event_time,
        TRY_CAST(weight_text AS DECIMAL(18, 6)) AS weight,
        excluded
    FROM fields
)
, events AS (
    SELECT
        line,
        text,
        user_id,
        item_id,
        event_time,
        weight,
        CASE
            WHEN {is_erased} THEN $erased_reason
            WHEN format_problem IS NOT NULL THEN format_problem
            WHEN excluded <> '' THEN $set_aside_prefix || excluded
            WHEN user_id IS NULL OR user_id = '' THEN 'no user'
            WHEN item_id IS NULL OR item_id = '' THEN 'no item'
            WHEN time_text IS NULL OR time_text = '' THEN 'no timestamp'
            WHEN event_time IS NULL THEN 'timestamp not understood'
            WHEN event_time NOT BETWEEN $earliest::TIMESTAMPTZ AND $latest::TIMESTAMPTZ
                THEN 'timestamp out of range'
            WHEN weight IS NULL OR weight <= 0 THEN 'weight is not a number above 0'
        END AS reason
    FROM typed
)
