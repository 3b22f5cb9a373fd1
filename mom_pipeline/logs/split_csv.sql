CASE
    WHEN contains(text, '"') THEN list_transform(
        regexp_extract_all($delimiter || text, $field, 1),
        lambda field: CASE
            WHEN field[1] = '"' THEN replace(field[2:-2], '""', '"')
            ELSE field
        END
    )
    ELSE string_split(text, $delimiter)
END
