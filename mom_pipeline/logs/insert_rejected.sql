-- Rejected lines, of a line that no parser could read the excerpt, of an erased person nothing.
INSERT INTO quarantine
{events}
SELECT
    $source_file,
    line,
    $day,
    CASE
        WHEN reason = $erased THEN ''
        WHEN starts_with(text, $mark) THEN split_part(text, $mark, 3)
        ELSE left(coalesce(text, ''), $quarantined_characters)
    END,
    reason
FROM events WHERE reason IS NOT NULL
