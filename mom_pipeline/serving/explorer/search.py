"""Search in ids and names: the texts stand one after the other, and one scan finds a part."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

_END = "\n"


class TextIndex:
    """Texts by position; upper and lower case are the same."""

    def __init__(self, texts: Sequence[str]) -> None:
        folded = [text.casefold() for text in texts]
        self._text = _END + _END.join(folded)
        self._starts = list(accumulate((len(text) + 1 for text in folded), initial=1))

    def search(self, part: str, n: int) -> list[int]:
        """The positions of at most n texts that hold a part; those that begin with it first."""
        folded, matching = part.casefold(), dict[int, None]()
        for positions in (self._beginning_with(folded), self._holding(folded)):
            for position in positions:
                matching[position] = None
                if len(matching) == n:
                    return list(matching)
        return list(matching)

    def _beginning_with(self, part: str) -> Iterator[int]:
        for place in self._places(_END + part):
            position = self._position(place + 1, part)
            # A text may hold the mark of an end itself.
            if position is not None and self._starts[position] == place + 1:
                yield position

    def _holding(self, part: str) -> Iterator[int]:
        for place in self._places(part):
            position = self._position(place, part)
            if position is not None:
                yield position

    def _places(self, part: str) -> Iterator[int]:
        place = self._text.find(part)
        while place >= 0:
            yield place
            place = self._text.find(part, place + 1)

    def _position(self, place: int, part: str) -> int | None:
        """The text that a place lies in; None when the part reaches beyond that text."""
        position = bisect_right(self._starts, place) - 1
        inside = position >= 0 and place + len(part) < self._starts[position + 1]
        return position if inside else None
