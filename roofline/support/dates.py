"""Today, and how long ago a date is."""

from __future__ import annotations

import datetime as dt
import os
import re

#: Age beyond which a price is said to be old [days].
OLD = 120
_DATE = r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?"


def today() -> dt.date:
    """The day of $SOURCE_DATE_EPOCH (reproducible-builds.org), where it is set, else of the clock, in UTC."""
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    if stated.isdecimal() and len(stated) <= len("253402300799"):
        return dt.datetime.fromtimestamp(int(stated), dt.UTC).date()
    return dt.datetime.now(dt.UTC).date()


def days_since(date: str) -> int | None:
    """Days since a date such as 2026-03-17, 2026-03 or 2026, whose first day counts; None for another text.

    >>> days_since("no date") is None
    True
    """
    match = re.fullmatch(_DATE, date.strip())
    if match is None:
        return None
    year, month, day = (int(part or 1) for part in match.groups())
    try:
        return (today() - dt.date(year, month, day)).days
    except ValueError:
        return None


def price_age(source: str | None) -> int | None:
    """Days since the date of a price's source, such as ``catalog 2026-03-17``; None where it has none."""
    return None if not source else days_since(source.rpartition(" ")[2])
