-- Events of the staged lines: the format of the file gives their fields, and a row with a reason is
-- rejected with it.
WITH typed AS (
    SELECT
        line,
        text,
        format_problem,
        {user} AS user_id,
        {item} AS item_id,
        {timestamp} AS time_text,
        {event_time} AS event_time,
        {weight} AS weight_text,
        {event} AS event,
        {event_weight} AS event_weight,
        CASE
            WHEN regexp_full_match(weight_text, $number) THEN TRY_CAST(weight_text AS DECIMAL(18, 6))
        END AS amount,
        TRY_CAST({weighed} AS DECIMAL(18, 6)) AS weight,
        coalesce({exclude}, '') AS excluded
    FROM ({fields})
)
-- MATERIALIZED, because a filter on `reason` would otherwise be pushed down and evaluate every
-- expression again for each of its uses.
, events AS MATERIALIZED (
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
            WHEN contains(user_id, chr(10)) OR contains(item_id, chr(10)) THEN 'control character'
            -- The number of bytes is known without a look at the text.
            WHEN strlen(user_id) > $max_id AND length(user_id) > $max_id THEN 'user is too long'
            WHEN strlen(item_id) > $max_id AND length(item_id) > $max_id THEN 'item is too long'
            WHEN time_text IS NULL OR time_text = '' THEN 'no timestamp'
            WHEN event_time IS NULL THEN 'timestamp not understood'
            WHEN event_time < $earliest::TIMESTAMPTZ THEN 'timestamp out of range'
            WHEN event_time >= $day_end::TIMESTAMPTZ THEN 'event after the delivery day'
            WHEN event = '' THEN 'no event type'
            WHEN event_weight IS NULL
                THEN concat($set_aside_prefix, 'no weight for event type ', left(event, 40))
            WHEN event_weight = 0 THEN concat($set_aside_prefix, 'event type ', event)
            WHEN weight IS NULL OR abs(weight) > $max_weight
                THEN 'weight is not a number up to 1,000,000,000'
            WHEN weight = 0 THEN concat($set_aside_prefix, 'weight 0')
        END AS reason
    FROM typed
)
