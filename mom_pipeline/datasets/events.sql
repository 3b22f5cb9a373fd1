-- Events of the lines of a file. A malformed line has no day, and its text in place of the time; so
-- has one that the source sets aside without a time that is understood.
SELECT
    $file,
    line,
    CASE WHEN problem IS NULL THEN event_time::DATE END AS day,
    CASE WHEN problem IS NULL THEN user_id ELSE '' END,
    CASE WHEN problem IS NULL THEN item_id ELSE '' END,
    CASE
        WHEN problem IS NULL AND event_time IS NOT NULL THEN strftime(event_time, $time_format)
        WHEN starts_with(text, $mark) THEN split_part(text, $mark, 3)
        ELSE left(replace(text, chr(10), ' '), $shown_characters)
    END,
    CASE WHEN problem IS NULL THEN weight ELSE '1' END,
    event,
    problem,
    exclude,
    CASE WHEN problem IS NULL THEN item_name ELSE '' END,
    CASE WHEN problem IS NULL THEN item_group ELSE '' END
FROM (
    SELECT
        *,
        CASE
            WHEN format_problem IS NOT NULL THEN format_problem
            WHEN exclude <> '' THEN NULL
            WHEN event_time IS NULL THEN $not_understood
            WHEN weight IS NULL THEN 'quantity not understood'
            WHEN $typed AND event = '' THEN 'no event type'
        END AS problem
    FROM (
        SELECT
            line,
            text,
            format_problem,
            CASE WHEN format_problem IS NULL THEN {time} END AS event_time,
            {user} AS user_id,
            {item} AS item_id,
            {weight} AS weight,
            {event} AS event,
            {exclude} AS exclude,
            {item_name} AS item_name,
            {item_group} AS item_group
        FROM ({fields})
    )
)
