-- The user was erased; a line without fields, or one that an import set aside, is about such a user
-- when one of its words is the id.
(user_id IS NOT NULL
    AND sha256(concat($salt, user_id)) IN (SELECT unnest($erased_users::VARCHAR[])))
OR ((format_problem IS NOT NULL OR excluded <> '') AND list_has_any(
    list_transform(regexp_extract_all(text, $a_word), lambda w: sha256(concat($salt, w))),
    $erased_users::VARCHAR[]
))
