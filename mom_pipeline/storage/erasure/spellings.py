"""How an id can be written in files: plainly, and as CSV, JSON and HTML write it."""

import html
import json

# A shorter id is a part of countless other words and numbers: as "7" is of 2024-03-07.
DISTINCTIVE_CHARACTERS = 5


def spellings(user_id: str) -> list[str]:
    """Return every way in which a file of the project can hold an id."""
    in_json = [json.dumps(user_id, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    twice = [json.dumps(text, ensure_ascii=True)[1:-1] for text in in_json]
    found = [user_id, user_id.replace('"', '""'), html.escape(user_id), *in_json, *twice]
    return sorted(set(found), key=lambda text: (-len(text), text))


def is_distinctive(user_id: str) -> bool:
    """Whether finding the id inside of a longer text means that the text is about the user."""
    return len(user_id) >= DISTINCTIVE_CHARACTERS
