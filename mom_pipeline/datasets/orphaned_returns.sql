-- A return of what the user did not take before is set aside.
UPDATE dataset_events AS late SET exclude = 'return of what was not taken before'
WHERE (starts_with(weight, '-') OR list_contains($returns::VARCHAR[], event))
    AND problem IS NULL AND exclude = '' AND NOT EXISTS (
        FROM dataset_events AS early
        WHERE early.user_id = late.user_id AND early.item_id = late.item_id
            AND early.problem IS NULL AND early.exclude = '' AND early.time_text <= late.time_text
            AND NOT (starts_with(early.weight, '-') OR list_contains($returns, early.event))
    )
