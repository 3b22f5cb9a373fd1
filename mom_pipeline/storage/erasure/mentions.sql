-- Whether a line that is no event speaks of a user: the id as a word of its own, and where the
-- id is distinctive anywhere in the line.
list_has_any(regexp_extract_all(text, $word), $spellings::VARCHAR[])
OR ($distinctive AND list_bool_or(list_transform($spellings::VARCHAR[], lambda s: contains(text, s))))
