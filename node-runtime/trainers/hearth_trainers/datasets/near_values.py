"""Explains text columns that are nearly numbers, dates or times of day. A model learns their text as
unordered categories, so a value that wasn't in the training data later counts as missing.
"""

from __future__ import annotations

import re
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from ..times.clocks import is_clock
from ..times.moments import is_time
from .cells import why_not_numbers, without_marks

# A column that is left out may have millions of distinct texts; this many are enough to show what it
# contains.
MAX_TEXTS = 2_000
# Fewer distinct numbers, such as '30 days' and '60 days', are often meant as categories.
MIN_NUMBERS = 5
_ISO_ALONE = "only those written as 2023-12-31 or 2023-12-31T23:59:00Z are read"
_NUMBER = r"[+\-−]?(?:\d+(?:,\d\d(?=,)|[,.'’´ \u00a0\u2009\u202f]\d{3})*)(?:[.,]\d+)?(?:[eE][+-]?\d+)?"
# Words before a number name something, as in 'Room 12' and 'XL 12', so only signs and currencies count there.
_CURRENCIES = (
    "AED|ARS|AUD|BDT|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EGP|EUR|Fr\\.?|GBP|HKD|HUF|IDR|ILS|INR|JPY|KES|kr\\.?|KRW|MAD|MXN|MYR|NGN"
    "|NOK|NZD|PHP|PKR|PLN|QAR|RM|RMB|RON|Rs\\.?|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|VND|XAF|XOF|ZAR"
)
_MONEY_SIGN = "[A-Z]{0,2}[$€£¥₹₩₺₽฿₫₴₦₪]"
_CURRENCY = re.compile(f"{_CURRENCIES}|{_MONEY_SIGN}")
_WITH_UNIT = re.compile(
    rf"(?P<sign>[<>≤≥=~≈±]{{1,2}}\s*)?(?P<before>(?:{_CURRENCIES}|{_MONEY_SIGN}|\()\s*)?{_NUMBER}"
    r"\s*(?P<after>[^\d\s\-_/:#.,][^\d]{0,9}[23]?|[.,][-–—]{1,2})?"
)
_PLAIN, _SIGN, _MONEY = "", "<", "$"


def near_values(column: pa.ChunkedArray) -> str | None:
    """Explains a text column if half of its cells are numbers, or half of its distinct texts are numbers,
    numbers with one unit, dates or times of day; None for other columns.
    """
    sample = _Sample(column)
    return why_not_numbers(column) or _near_times(sample) or _near_numbers(sample)


def near_numbers(column: pa.ChunkedArray) -> str | None:
    """Explains a text column as `near_values` does; None for dates and times of day."""
    sample = _Sample(column)
    return None if _near_times(sample) else why_not_numbers(column) or _near_numbers(sample)


class _Sample:
    """A sample of a column's distinct texts."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._trimmed = without_marks(column)
        texts: list[str] = pc.unique(self._trimmed).drop_null().to_pylist()
        self.texts = texts[:: max(1, -(-len(texts) // MAX_TEXTS))]

    def example(self, are: list[bool], wanted: bool = True) -> str | None:
        """Returns the first text, quoted, for which `are` has the wanted value."""
        if wanted not in are:
            return None
        text = self.texts[are.index(wanted)]
        return f"'{text[:60]}' (row {pc.index(self._trimmed, text).as_py() + 1})"


def _near_times(sample: _Sample) -> str | None:
    texts = sample.texts
    dates = [is_time(text) for text in texts]
    if sum(dates) > 1 and 2 * sum(dates) >= len(texts):
        other = sample.example(dates, False)
        but = f", but {other} is not one; leave such cells empty" if other else ""
        return f"it looks like dates{but}; {_ISO_ALONE}"
    clocks = [is_clock(text) for text in texts]
    if sum(clocks) >= MIN_NUMBERS and 2 * sum(clocks) >= len(texts):
        return f"it looks like times, such as {sample.example(clocks)}; write them as one number, such as minutes"
    return None


def _near_numbers(sample: _Sample) -> str | None:
    units = [_unit_of(text) for text in sample.texts]
    counts = Counter(unit for unit in units if unit is not None)
    plain = counts.pop(_PLAIN, 0)
    unit, count = counts.most_common(1)[0] if counts else (_PLAIN, 0)
    if plain + count < MIN_NUMBERS or 2 * (plain + count) < len(units):
        return None
    if count:
        numbers = sample.example([one == unit for one in units])
        return f"it holds numbers with a unit or sign, such as {numbers}; write the number alone, all in one unit"
    if other := sample.example([one == _PLAIN for one in units], False):
        return f"at least half of its different values are numbers, but {other} is not"
    ways = {way: text for text in reversed(sample.texts) if (way := re.sub(r"[\d+\-−]", "", text))}
    shown = [sample.example([text == one for text in sample.texts]) for one in ways.values()]
    if len(shown) > 1:
        return f"its numbers are written in several ways, such as {shown[-1]} and {shown[-2]}; write all in one way"
    return f"its numbers are written in a way that is not read, such as '{sample.texts[0][:60]}'; write them as 1234.5"


def _unit_of(text: str) -> str | None:
    """Returns a number's unit: `_MONEY` for any currency, `_SIGN` for a number after a comparison sign,
    `_PLAIN` for a number alone. Returns None for other text, and for codes with a leading zero.
    """
    found = _WITH_UNIT.fullmatch(text)
    if found is None or re.match(r"\D*0\d", text):
        return None
    unit = (found["before"] or "").strip() + (found["after"] or "").strip()
    return _MONEY if _CURRENCY.fullmatch(unit) else unit or (_SIGN if found["sign"] else _PLAIN)
