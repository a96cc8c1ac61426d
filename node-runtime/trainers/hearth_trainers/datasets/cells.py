"""Reads numbers from text as people and spreadsheets write them. `platform/datasets/csv-values.ts` has the
same rules, so that a dataset's description matches what is learned; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from .csv_layout import MISSING, MISSING_AMONG_VALUES

ERRORS = [mark for mark in MISSING if mark.startswith("#") and mark[-1] in "!?"]

_SYMBOLS = "€$£¥₹%"
_SIGN = "[+-]?"
_PLAIN = rf"{_SIGN}(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_COMMA_THOUSANDS = rf"{_SIGN}\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?"
_DECIMAL_COMMA = rf"{_SIGN}(?:\d+(?:,\d+)?(?:[eE][+-]?\d+)?|\d{{1,3}}(?:\.\d{{3}})+(?:,\d+)?)"
_GAP = r"[ '’´\x{00a0}\x{2009}\x{202f}]"
_GAP_THOUSANDS = rf"{_SIGN}[1-9]\d{{0,2}}(?:{_GAP}\d{{3}})+(?:[.,]\d+)?"
_DECIMAL_POINT = f"{_PLAIN}|{_COMMA_THOUSANDS}"
# Marks that may be decimal marks or thousands separators. A leading zero proves a decimal mark.
_OPEN_POINTS = rf"{_SIGN}[1-9]\d{{0,2}}(?:\.\d{{3}})+"
_OPEN_COMMAS = rf"{_SIGN}[1-9]\d{{0,2}}(?:,\d{{3}})+"
_WHOLE = rf"{_SIGN}\d+"
DECIMALS, THOUSANDS = "decimals", "thousands"


@dataclass(frozen=True)
class Numbers:
    """A column of numbers that were written as text. `how` describes their notation unless it is plain; `row`
    is the index of an example other than the first value.
    """

    column: pa.ChunkedArray
    how: str | None
    row: int | None = None


def without_blanks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the values without spaces around them; those that mean a missing value in every column are
    null.
    """
    has_blanks = pc.or_(pc.starts_with(column, " "), pc.ends_with(column, " "))
    if not pc.any(has_blanks).as_py():
        return column
    trimmed = pc.utf8_trim(column, " ")
    marks = pa.array([mark for mark in MISSING if mark not in ERRORS])
    return pc.if_else(pc.is_in(trimmed, marks), pa.scalar(None, pa.string()), trimmed)


def without_marks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the values trimmed; those that mean a missing value are null."""
    trimmed = pc.utf8_trim_whitespace(column)
    marks = pa.array(MISSING + MISSING_AMONG_VALUES)
    return pc.if_else(pc.is_in(trimmed, marks), pa.scalar(None, pa.string()), trimmed)


def point_meaning(columns: Sequence[pa.ChunkedArray], delimiter: str | None = None) -> str | None:
    """Returns what dots in numbers mean if that is ambiguous in any of a table's text columns: `DECIMALS` or
    `THOUSANDS`, as shown by another column or a CSV file's `delimiter`; None if nothing shows it or
    columns contradict each other.
    """
    # One column at a time, because copies of all columns would take as much memory as a second table.
    if not any(_has_point(column) and _has_open_points(_bare_values(column)) for column in columns):
        return None
    has_commas = any(_has_comma(column) and _proves_decimal_commas(_bare_values(column)) for column in columns)
    has_points = any(_has_point(column) and _proves_decimal_points(_bare_values(column)) for column in columns)
    # Programs write semicolons between cells where a comma is the decimal mark, but also in Switzerland,
    # where numbers look like 12'500 and 3.525.
    is_sign = delimiter == ";" and not any(
        _has_gaps(column) and _all(_bare_values(column), _WHOLE) for column in columns
    )
    if has_points:
        # Coordinates have decimal points even in files with decimal commas.
        return THOUSANDS if has_commas and is_sign else None if has_commas or is_sign else DECIMALS
    return THOUSANDS if has_commas or is_sign else None


def read_numbers(column: pa.ChunkedArray, points: str | None = None) -> Numbers | None:
    """Returns a text column's numbers; None if it has any other value, or no values at all. `points` is the
    `point_meaning` of its table.
    """
    texts = without_marks(column)
    if texts.null_count == len(texts):
        return None
    bare, symbol = _bare(texts)
    if points != DECIMALS and _has_open_points(bare):
        # A number such as 1500 has no thousands separator.
        return _read_open_points(bare, points == THOUSANDS and not _any(bare, rf"{_SIGN}\d{{4,}}"))
    plain = _cast(texts)
    if plain is not None:
        return Numbers(plain, None)
    decimal = _decimal_of(bare, symbol)
    if decimal is None:
        return None
    other = "," if decimal == "." else "."
    numbers = _cast(pc.replace_substring(pc.replace_substring(bare, other, ""), decimal, "."))
    if numbers is None:
        return None
    parts = [
        "with a decimal comma" if decimal == "," else "",
        "with thousands separators" if (decimal == "." and not _all(bare, _PLAIN)) or _differs(texts, symbol) else "",
        f"without '{symbol}'" if symbol else "",
    ]
    return Numbers(numbers, "numbers " + ", ".join(part for part in parts if part))


def why_not_numbers(column: pa.ChunkedArray) -> str | None:
    """Explains why a text column is not quite numeric; None for other columns."""
    texts = without_marks(column)
    values = len(texts) - texts.null_count
    if values == 0:
        return None
    if _has_comma(texts) and _all(texts, rf"{_SIGN}\d{{1,3}}(?:,\d{{3}})*"):
        row = pc.index(pc.match_substring(texts, ","), True).as_py()
        return (
            f"'{texts[row]}' in row {row + 1} may have a decimal comma or a thousands separator; write it with neither"
        )
    is_number = pc.match_substring_regex(texts, f"^{_PLAIN}$")
    numbers = pc.sum(is_number).as_py() or 0
    if numbers < values / 2 or numbers == values:
        return None
    row = pc.index(is_number, False).as_py()
    return f"{numbers:,} of {values:,} values are numbers; row {row + 1} is '{str(texts[row])[:60]}'"


def _read_open_points(bare: pa.ChunkedArray, are_thousands: bool) -> Numbers | None:
    row = pc.index(pc.match_substring(bare, "."), True).as_py()
    if are_thousands:
        return Numbers(_cast(pc.replace_substring(bare, ".", "")), "numbers with dots between thousands", row)
    numbers = _cast(bare)
    if numbers is None:
        # A second dot, as in 1.234.567, proves that dots separate thousands.
        return _read_open_points(bare, True)
    return Numbers(
        numbers, "numbers with a decimal point, which may be a thousands separator (write those without it)", row
    )


def _has_open_points(bare: pa.ChunkedArray) -> bool:
    """Returns whether the dots in a column may be either decimal points or thousands separators."""
    return _has_point(bare) and _all(bare, f"{_WHOLE}|{_OPEN_POINTS}")


def _has_gaps(texts: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, rf"\d{_GAP}\d")).as_py())


def _proves_decimal_commas(bare: pa.ChunkedArray) -> bool:
    return _all(bare, _DECIMAL_COMMA) and not _all(bare, f"[^,]*|{_OPEN_COMMAS}")


def _proves_decimal_points(bare: pa.ChunkedArray) -> bool:
    return _all(bare, _DECIMAL_POINT) and not _all(bare, f"[^.]*|{_OPEN_POINTS}")


def _bare_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return _bare(without_marks(column))[0]


def _bare(texts: pa.ChunkedArray) -> tuple[pa.ChunkedArray, str | None]:
    """Returns the numbers without their common symbol and without gaps, and the symbol."""
    symbol = _common_symbol(texts)
    bare = texts if symbol is None else pc.utf8_trim_whitespace(pc.replace_substring(texts, symbol, ""))
    return _without_gaps(bare), symbol


def _cast(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    # Arrow would read 0x1F as 31.
    if pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py():
        return None
    for kind in (pa.int64(), pa.float64()):
        try:
            return pc.cast(texts, kind)
        except pa.ArrowInvalid:
            continue
    return None


def _all(texts: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, f"^(?:{pattern})$")).as_py())


def _any(texts: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, f"^(?:{pattern})$")).as_py())


def _common_symbol(texts: pa.ChunkedArray) -> str | None:
    """Returns the currency or percent sign that every value contains exactly once."""
    first = next((value.as_py() for value in texts if value.is_valid), "")
    symbol = next((mark for mark in _SYMBOLS if mark in first), None)
    if symbol is None or not pc.all(pc.equal(pc.count_substring(texts, symbol), 1)).as_py():
        return None
    return symbol


def _without_gaps(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Removes spaces and apostrophes that separate thousands."""
    # Only if the whole value is one number: 10 2000 is two numbers.
    is_number = pc.match_substring_regex(texts, f"^{_GAP_THOUSANDS}$")
    if not pc.any(is_number).as_py():
        return texts
    return pc.if_else(is_number, pc.replace_substring_regex(texts, _GAP, ""), texts)


def _differs(texts: pa.ChunkedArray, symbol: str | None) -> bool:
    bare = texts if symbol is None else pc.utf8_trim_whitespace(pc.replace_substring(texts, symbol, ""))
    return not pc.all(pc.equal(bare, _without_gaps(bare))).as_py()


def _decimal_of(texts: pa.ChunkedArray, symbol: str | None) -> str | None:
    """Returns the decimal mark of all values; None if neither mark fits every value, or both do."""
    points = _all(texts, _DECIMAL_POINT)
    commas = _all(texts, _DECIMAL_COMMA)
    if points and commas and (symbol in tuple("$£¥₹") or not _has_comma(texts)):
        return "."
    return None if points == commas else "." if points else ","


def _has_point(texts: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring(texts, ".")).as_py())


def _has_comma(texts: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring(texts, ",")).as_py())
