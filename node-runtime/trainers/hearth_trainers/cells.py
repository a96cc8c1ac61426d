"""Reads numbers from texts as people and spreadsheets write them. `platform/datasets/csv.ts` has the same rules, so that
a dataset is described as it will be learnt; a test compares the two."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

# Texts that mean a missing value in every column: those of pandas, and the errors of spreadsheets.
MISSING = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null", "?", "#DIV/0!", "#REF!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!",
]  # fmt: skip
# Texts that mean a missing value where every other value is a number, a boolean or a date. In a
# column of texts they may be values: "-" is a class next to "+".
MISSING_AMONG_VALUES = ["-", "--", ".", "..", "na", "Na", "N.A.", "n.a.", "none", "NONE", "Null", "Nan", "NAN"]
ERRORS = [mark for mark in MISSING if mark.startswith("#") and mark[-1] in "!?"]

_SYMBOLS = "€$£¥₹%"
_SIGN = "[+-]?"
_PLAIN = rf"{_SIGN}(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_COMMA_THOUSANDS = rf"{_SIGN}\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?"
_DECIMAL_COMMA = rf"{_SIGN}(?:\d+|\d{{1,3}}(?:\.\d{{3}})+)(?:,\d+)?"
_GAPS = r"(\d)[ '’\x{00a0}\x{202f}](\d{3})"


@dataclass(frozen=True)
class Numbers:
    """A column of numbers that was written as texts; `how` says how unless they are plain."""

    column: pa.ChunkedArray
    how: str | None


def without_marks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns trimmed texts; those that mean a missing value are null."""
    trimmed = pc.utf8_trim_whitespace(column)
    marks = pa.array(MISSING + MISSING_AMONG_VALUES)
    return pc.if_else(pc.is_in(trimmed, marks), pa.scalar(None, pa.string()), trimmed)


def read_numbers(column: pa.ChunkedArray) -> Numbers | None:
    """Returns the numbers of a text column, or None when it has any other value or none at all."""
    texts = without_marks(column)
    if texts.null_count == len(texts):
        return None
    plain = _cast(texts)
    if plain is not None:
        return Numbers(plain, None)
    symbol = _common_symbol(texts)
    bare = texts if symbol is None else pc.utf8_trim_whitespace(pc.replace_substring(texts, symbol, ""))
    bare = _without_gaps(bare)
    decimal = _decimal_of(bare, symbol)
    if decimal is None:
        return None
    other = "," if decimal == "." else "."
    numbers = _cast(pc.replace_substring(pc.replace_substring(bare, other, ""), decimal, "."))
    if numbers is None:
        return None
    parts = [
        "with a decimal comma" if decimal == "," else "",
        "with thousands separators" if decimal == "." and not _all(bare, _PLAIN) or _differs(texts, symbol) else "",
        f"without '{symbol}'" if symbol else "",
    ]
    return Numbers(numbers, "numbers " + ", ".join(part for part in parts if part))


def why_not_numbers(column: pa.ChunkedArray) -> str | None:
    """Explains a text column that is nearly one of numbers; None for other texts."""
    texts = without_marks(column)
    values = len(texts) - texts.null_count
    if values == 0:
        return None
    if _has_comma(texts) and _all(texts, rf"{_SIGN}\d{{1,3}}(?:,\d{{3}})*"):
        row = pc.index(pc.match_substring(texts, ","), True).as_py()
        return f"'{texts[row]}' in row {row + 1} may have a decimal comma or a thousands separator; write it with neither"
    is_number = pc.match_substring_regex(texts, f"^{_PLAIN}$")
    numbers = pc.sum(is_number).as_py() or 0
    if numbers < values / 2 or numbers == values:
        return None
    row = pc.index(is_number, False).as_py()
    return f"{numbers:,} of {values:,} values are numbers; row {row + 1} is '{str(texts[row])[:60]}'"


def _cast(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    for kind in (pa.int64(), pa.float64()):
        try:
            return pc.cast(texts, kind)
        except pa.ArrowInvalid:
            continue
    return None


def _all(texts: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, f"^(?:{pattern})$")).as_py())


def _common_symbol(texts: pa.ChunkedArray) -> str | None:
    """Returns the currency or the percent sign that every value has once."""
    first = next((value.as_py() for value in texts if value.is_valid), "")
    symbol = next((mark for mark in _SYMBOLS if mark in first), None)
    if symbol is None or not pc.all(pc.equal(pc.count_substring(texts, symbol), 1)).as_py():
        return None
    return symbol


def _without_gaps(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Removes blanks and apostrophes between thousands."""
    for _ in range(4):
        texts = pc.replace_substring_regex(texts, _GAPS, r"\1\2")
    return texts


def _differs(texts: pa.ChunkedArray, symbol: str | None) -> bool:
    bare = texts if symbol is None else pc.utf8_trim_whitespace(pc.replace_substring(texts, symbol, ""))
    return not pc.all(pc.equal(bare, _without_gaps(bare))).as_py()


def _decimal_of(texts: pa.ChunkedArray, symbol: str | None) -> str | None:
    """Returns the decimal mark of all values; None when some value fits neither, or when all fit both."""
    points = _all(texts, f"{_PLAIN}|{_COMMA_THOUSANDS}")
    commas = _all(texts, _DECIMAL_COMMA)
    if points and commas and (symbol in tuple("$£¥₹") or not _has_comma(texts)):
        return "."
    return None if points == commas else "." if points else ","


def _has_comma(texts: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring(texts, ",")).as_py())
