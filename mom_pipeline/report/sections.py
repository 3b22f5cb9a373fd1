"""Where the model comes from: deliveries, settings, versions and times."""

from collections import Counter
from dataclasses import asdict
from itertools import groupby
from typing import Any

from mom_pipeline.logs.ledger import LedgerEntry
from mom_pipeline.pictures import stacked_bars
from mom_pipeline.report.data import DayFacts
from mom_pipeline.report.html import Html, paragraphs, picture, pictures, section, table, tag

_SHOWN_DAYS = 31
_SHOWN_SETTINGS = (
    "pipeline", "logs", "matrix", "model", "rebuild", "serving", "evaluation", "comparison",
)  # fmt: skip
_SHOWN_REASONS = 10


def deliveries_section(facts: DayFacts) -> Html:
    """Files, rows and rejects of the newest days."""
    days = [
        (day, list(files))
        for day, files in groupby(facts.deliveries, key=lambda entry: entry.delivery_day)
    ]
    shown = days[-_SHOWN_DAYS:]
    n = sum(len(files) for _, files in days)
    rows = [
        (tag("span", str(day), class_="date"), *_counts(files)) for day, files in reversed(shown)
    ]
    figure = stacked_bars(
        [f"{day:%m-%d}" for day, _ in shown],
        {"accepted": [_counts(files)[1] for _, files in shown],
         "rejected or set aside": [_counts(files)[2] for _, files in shown]},
        title="Rows delivered", x_label=f"delivery day (n = {len(shown)})", y="rows",
    )  # fmt: skip
    return section(
        "data",
        "Data of the days",
        paragraphs(_summary(facts, len(days), n)),
        pictures(picture(figure, "Rows accepted and rejected by delivery day")),
        table(
            f"Deliveries, the newest {len(shown)} days",
            ["delivery day", "files", "rows accepted", "rejected", "of these set aside", "bytes"],
            rows,
        ),
        _reasons(facts.deliveries),
    )


def _counts(files: list[LedgerEntry]) -> tuple[int, int, int, int, int]:
    """Files, accepted, rejected, set aside, bytes."""
    return (
        len(files),
        sum(entry.rows_accepted for entry in files),
        sum(entry.rows_rejected for entry in files),
        sum(entry.rows_set_aside for entry in files),
        sum(entry.size_bytes for entry in files),
    )


def _summary(facts: DayFacts, n_days: int, n_files: int) -> str:
    accepted, rejected = _counts(list(facts.deliveries))[1:3]
    share = rejected / max(accepted + rejected, 1)
    density = facts.n_pairs / max(facts.n_users * facts.n_items, 1)
    return (
        f"{n_files:,} files of {n_days:,} days brought {accepted:,} rows; {rejected:,} "
        f"({share:.2%}) were rejected or set aside. The matrix as of {facts.day} has "
        f"{facts.n_users:,} users, {facts.n_items:,} items and {facts.n_pairs:,} pairs, "
        f"{density:.2%} of its cells."
    )


def _reasons(entries: tuple[LedgerEntry, ...]) -> Html | None:
    reasons: Counter[str] = Counter()
    for entry in entries:
        reasons.update(entry.reject_reasons)
    if not reasons:
        return None
    return table("Why rows were not taken", ["reason", "rows"], reasons.most_common(_SHOWN_REASONS))


def origin_section(facts: DayFacts) -> Html:
    """Settings, versions and the seconds of every asset."""
    settings = [
        entry
        for name in _SHOWN_SETTINGS
        for entry in _flat(name, asdict(getattr(facts.settings, name)))
    ]
    seconds = [(asset, f"{value:.2f}") for asset, value in facts.seconds.items()]
    total = sum(facts.seconds.values())
    times = (
        table(f"Seconds of {facts.day}", ["asset", "seconds"],
              [*seconds, ("together", f"{total:.2f}")])
        if seconds
        else paragraphs(f"No times of {facts.day} are known.")
    )  # fmt: skip
    versions = table("Versions", ["", "version"], list(facts.versions.items()), texts=2)
    return section(
        "origin",
        "Settings, versions, times",
        tag(
            "div",
            table("Settings", ["key", "value"], settings, texts=2),
            tag("div", times, versions),
            class_="beside",
        ),
    )


def _flat(prefix: str, values: dict[str, Any]) -> list[tuple[str, str]]:
    """Return dotted keys and their values as the settings file would have them."""
    found = []
    for key, value in values.items():
        if isinstance(value, dict):
            found += _flat(f"{prefix}.{key}", value)
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            found.append((f"{prefix}.{key}", shown or "–"))
    return found
