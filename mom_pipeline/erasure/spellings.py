"""How an id can be written in files: plainly, and as CSV, JSON and HTML write it."""

import html
import json
import re

# A shorter id is a part of countless other words and numbers: as "7" is of 2024-03-07.
DISTINCTIVE_CHARACTERS = 5


def spellings(user_id: str) -> list[str]:
    """Return every way in which a file of the project can hold an id."""
    in_json = [json.dumps(user_id, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    twice = [json.dumps(text, ensure_ascii=True)[1:-1] for text in in_json]
    found = [user_id, user_id.replace('"', '""'), html.escape(user_id), *in_json, *twice]
    return sorted(set(found), key=lambda text: (-len(text), text))


def mention(user_id: str) -> re.Pattern[str]:
    """Return a pattern for the id as a word of its own: user-1 is not meant in user-17."""
    return re.compile(rf"(?<![\w-])(?:{_any_spelling(user_id)})(?![\w-])")


def mention_in_sql(user_id: str) -> str:
    """Return the same for DuckDB's regexp_matches, which cannot look around."""
    edge = r"[^\p{L}\p{N}_-]"
    return rf"(?:^|{edge})(?:{_any_spelling(user_id)})(?:$|{edge})"


def _any_spelling(user_id: str) -> str:
    return "|".join(re.escape(text) for text in spellings(user_id))


def is_distinctive(user_id: str) -> bool:
    """Whether finding the id inside of a longer text means that the text is about the user."""
    return len(user_id) >= DISTINCTIVE_CHARACTERS
