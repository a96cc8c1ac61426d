"""Text notations of times, and the moments they stand for. Each value is read without the rest of its column."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from .centuries import POSIX_YEAR, whole_year
from .clocks import is_clock

# The endings that may follow the first three letters of a month, in English and in languages whose names
# begin alike. Other words with the same beginning, such as Market or Decoder, mean something else.
_ENDINGS = {
    "jan": "uary uar uari v vier eiro",
    "feb": "ruary r ruar ruari rero braio",
    "mar": "ch s ts zo",
    "apr": "il ile",
    "may": "o",
    "jun": "e i io ho",
    "jul": "y i io ho",
    "aug": "ust usti ustus",
    "sep": "t tember tembre",
    "oct": "ober obre ubre",
    "nov": "ember embre embro iembre",
    "dec": "ember embre",
}
_MONTHS = {
    first + ending: number
    for number, (first, endings) in enumerate(_ENDINGS.items(), start=1)
    for ending in ("", *endings.split())
}
DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1)
_CLOCK = (
    r"(?:[T ,]+(?P<h>\d{1,2}):(?P<min>\d{2})(?::(?P<s>\d{2})(?:[.,](?P<f>\d{1,9}))?)?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?"
)
# Three numbers. Which is which is decided for the whole column.
NUMERIC = re.compile(rf"(?P<a>\d{{1,4}})(?P<mark>[./-])(?P<b>\d{{1,2}})(?P=mark)(?P<c>\d{{1,4}})\.?{_CLOCK}")
# A month with its year. Two digits may be a day instead, which is also decided for the whole column.
NAME_AND_NUMBER = re.compile(r"(?P<name>[A-Za-z]{3,9})\.?[ /-]+(?P<y>\d{4}|\d{2})")
# Unambiguous notations.
_CLEAR = [
    NAME_AND_NUMBER,
    *map(
        re.compile,
        (
            r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})(?:T?(?P<h>\d{2})(?P<min>\d{2})(?P<s>\d{2})?(?P<zone>Z)?)?",
            rf"(?:[A-Za-z]{{3,9}},?\s+)?(?P<d>\d{{1,2}})[ .-]+(?P<name>[A-Za-z]{{3,9}})\.?"
            rf"[ ,.-]+(?P<y>\d{{4}}|\d{{2}}){_CLOCK}",
            rf"(?:[A-Za-z]{{3,9}},\s+)?(?P<name>[A-Za-z]{{3,9}})\.?"
            rf" +(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,? +(?P<y>\d{{4}}){_CLOCK}",
            r"(?P<y>\d{4})[ /-]?(?P<name>[A-Za-z]{3,9})",
            r"(?P<y>\d{4})[-/.M ](?P<m>\d{1,2})",
            r"(?P<m>\d{1,2})[/.-](?P<y>\d{4})",
            r"(?P<y>\d{4})[ -]?[Qq](?P<q>[1-4])",
            r"[Qq](?P<q>[1-4])[ /-]?(?P<y>\d{4})",
            r"(?P<y>\d{4})-?W(?P<w>\d{2})(?:-(?P<wd>[1-7]))?",
            r"(?P<y>1[5-9]\d{2}|2[01]\d{2})",
        ),
    ),
]


def month_of(name: str) -> int | None:
    """Returns the month, from 1, that a name or its abbreviation means; None for other words."""
    return _MONTHS.get(name.lower())


def is_time(text: str) -> bool:
    """Returns whether a string is a time in some notation."""
    return (NUMERIC.fullmatch(text) is not None and not is_clock(text)) or clear_time(text) is not None


def clear_time(text: str) -> int | None:
    """Returns the microseconds since 1970 of an unambiguous string; None for any other."""
    found = clear_match(text)
    return clear_moment(found, POSIX_YEAR) if found else None


def clear_match(text: str) -> re.Match[str] | None:
    """Returns the match of a string in an unambiguous notation."""
    return next((found for pattern in _CLEAR if (found := pattern.fullmatch(text))), None)


def clear_moment(found: re.Match[str], first_year: int) -> int | None:
    """Returns the microseconds since 1970 of a match from `clear_match`; two-digit years start at
    `first_year`.
    """
    groups = found.groupdict()
    if groups.get("w"):
        try:
            day = datetime.fromisocalendar(int(groups["y"]), int(groups["w"]), int(groups["wd"] or 1))
        except ValueError:
            return None
        return (day - _EPOCH) // timedelta(microseconds=1)
    month = groups.get("m") or 3 * int(groups.get("q") or 0) - 2
    if groups.get("name"):
        month = month_of(groups["name"])
        if month is None:
            return None
    return moment_of(groups["y"], max(1, int(month)), int(groups.get("d") or 1), found, first_year)


def moment_of(year: str, month: int, day: int, match: re.Match[str], first_year: int) -> int | None:
    """Returns microseconds since 1970 in UTC; None for an impossible date or time."""
    parts = match.groupdict()
    number = int(year) if len(year) == 4 else whole_year(int(year), first_year)
    hour = int(parts.get("h") or 0)
    if parts.get("half"):
        hour = hour % 12 + (12 if parts["half"] in "pP" else 0)
    try:
        moment = datetime(number, month, day, hour, int(parts.get("min") or 0), int(parts.get("s") or 0))
    except ValueError:
        return None
    micros = (moment - _EPOCH) // timedelta(microseconds=1) + int((parts.get("f") or "0").ljust(6, "0")[:6])
    zone = parts.get("zone") or ""
    if zone[:1] in ("+", "-"):
        minutes = int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)
        micros -= (1 if zone[0] == "+" else -1) * minutes * 60_000_000
    return micros


def in_words(micros: int) -> str:
    """Returns a moment as a date, with the time of day unless it is midnight."""
    moment = _EPOCH.replace(tzinfo=timezone.utc) + timedelta(microseconds=int(micros))
    return moment.strftime("%Y-%m-%d" if micros % DAY_US == 0 else "%Y-%m-%d %H:%M:%S")
