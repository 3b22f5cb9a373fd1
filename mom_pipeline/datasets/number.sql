-- A number as people write it: 1,5 and 1.234,50, 1 234.5, '1.5', $5, 5 EUR, 5-, (5). The mark
-- {decimal} stands before the decimals where a number could be read in two ways.
TRY_CAST(CASE
    WHEN regexp_full_match({bare}, '[+-]?[0-9]+') THEN {bare}
    WHEN regexp_full_match({bare}, '[+-]?[0-9]{1,3}([{thousands}][0-9]{3})+([{decimal}][0-9]*)?')
        THEN replace(replace({bare}, '{thousands}', ''), '{decimal}', '.')
    WHEN regexp_full_match({bare}, '[+-]?([0-9]*[{decimal}][0-9]+|[0-9]+[{decimal}])')
        THEN replace({bare}, '{decimal}', '.')
    WHEN regexp_full_match({bare}, '[+-]?([0-9]*[{thousands}][0-9]+|[0-9]+[{thousands}])')
        THEN replace({bare}, '{thousands}', '.')
    WHEN regexp_full_match({bare}, '[+-]?[0-9]{1,3}([{decimal}][0-9]{3})+([{thousands}][0-9]+)?')
        THEN replace(replace({bare}, '{decimal}', ''), '{thousands}', '.')
    WHEN regexp_full_match({bare}, '[+-]?[0-9]+([.][0-9]+)?[eE][+-]?[0-9]+') THEN {bare}
    WHEN regexp_full_match({bare}, '[0-9.,]+-|[(][0-9.,]+[)]')
        THEN '-' || replace(replace(
            regexp_replace({bare}, '[-()]', '', 'g'), '{thousands}', ''), '{decimal}', '.')
END AS DECIMAL(18, 6))
