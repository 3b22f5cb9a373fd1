"""HTML that is escaped unless it was made here: ids and file names are other people's text."""

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape

from matplotlib.figure import Figure

from mom_pipeline.pictures import drawn

_EMPTY = {"img", "meta", "br"}


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Content = str | int | float | Html | None


def tag(name: str, /, *children: Content, **attributes: str) -> Html:
    """An element. Children that are not Html are escaped; a `_` ends names that Python keeps."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value, quote=True)}"'
        for key, value in attributes.items()
    )
    if name in _EMPTY:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{joined(children)}</{name}>")


def joined(children: Iterable[Content]) -> Html:
    """Pieces one after another; None is nothing."""
    return Html("".join(_written(child) for child in children))


def _written(child: Content) -> str:
    if child is None:
        return ""
    if isinstance(child, int):
        return f"{child:,}"
    return child if isinstance(child, Html) else escape(str(child), quote=True)


def section(anchor: str, title: str, *children: Content) -> Html:
    """A part of the page with its heading."""
    return tag("section", tag("h2", title), *children, id=anchor)


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Content]],
    *,
    texts: int = 1,
    class_: str = "",
) -> Html:
    """A table that scrolls inside of itself when the page is narrow.

    texts: so many columns from the left hold text, the others numbers, to the right.
    """
    kinds = ["text" if place < texts else "number" for place in range(len(columns))]
    head = tag("tr", *(tag("th", name, scope="col", class_=kind)
                       for name, kind in zip(columns, kinds, strict=True)))  # fmt: skip
    body = [
        tag("tr", *(tag("td", cell, class_=kind, data_label=name)
                    for cell, kind, name in zip(row, kinds, columns, strict=True)))
        for row in rows
    ]  # fmt: skip
    whole = tag("table", tag("thead", head), tag("tbody", *body), class_=class_)
    return tag(
        "div",
        tag("p", caption, class_="caption"),
        tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption),
    )


def picture(figure: Figure, description: str) -> Html:
    """A drawing inside of the page, as SVG: sharp on any screen and on paper."""
    data = base64.b64encode(drawn(figure, "svg")).decode("ascii")
    image = tag("img", src=f"data:image/svg+xml;base64,{data}", alt=description)
    return tag("figure", image)


def pictures(*figures: Html) -> Html:
    """Drawings side by side where there is room."""
    return tag("div", *figures, class_="pictures")


def paragraphs(*texts: str) -> Html:
    """One paragraph for each text; what stands between backticks is code."""
    return joined(tag("p", prose(text)) for text in texts)


def prose(text: str) -> Html:
    """Text, escaped, with code between backticks; days are not broken across lines."""
    written = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=True))
    return Html(re.sub(r"\b\d{4}-\d\d-\d\d\b", r'<span class="date">\g<0></span>', written))
