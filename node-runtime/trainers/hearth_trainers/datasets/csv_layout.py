"""Detects the layout of a CSV file, following the rules in `platform/datasets/csv-scan.ts`, and lists the
strings that mean a missing value. The trainers and the tool `query_table` each have a copy of this file,
because each runs without the other; a test compares the copies.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Strings that mean a missing value in any column: pandas' defaults and spreadsheet errors.
MISSING = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null", "?", "#DIV/0!", "#REF!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!",
]  # fmt: skip
# Strings that mean a missing value if every other value is a number, a boolean or a date. In a column of text
# they may be values: "-" is a class next to "+".
MISSING_AMONG_VALUES = ["-", "--", ".", "..", "na", "Na", "N.A.", "n.a.", "none", "NONE", "Null", "Nan", "NAN"]

_DELIMITERS = (",", ";", "\t", "|")
# A line before the header that Excel reads and writes.
_SEPARATOR_LINE = re.compile(r'"?sep=([,;\t|])"?\r?\n', re.IGNORECASE)
_START_BYTES = 1 << 20
_SAMPLED_ROWS = 100
_CLOSING = re.compile(r'[^"]*(?:""[^"]*)*"(?!") *')


class UnclearLayout(ValueError):
    """The header parses with several delimiters, or is a title instead of column names."""


@dataclass(frozen=True)
class CsvLayout:
    """The delimiter, the number of lines before the header (0 or 1), and the number of columns."""

    delimiter: str
    skipped_lines: int
    columns: int


@dataclass(frozen=True)
class CsvRecord:
    """A record, its first line (from 1), the number of its delimiters outside quotes, and what is wrong with
    its quotes. In `text`, spaces around quoted cells are stripped (one before, any number after), as DuckDB
    does.
    """

    line: int
    text: str
    delimiters: int
    fault: str | None = None


def layout_of(path: Path) -> CsvLayout:
    """Detects a file's layout from its start."""
    with path.open("rb") as stream:
        start = stream.read(_START_BYTES)
    text = start.decode("utf-8-sig", errors="replace")
    named = _SEPARATOR_LINE.match(text)
    text = text[named.end() :] if named else text
    delimiter = named[1] if named else _delimiter_of(text, is_cut=len(start) == _START_BYTES)
    lines = _lines(text, delimiter)
    if fault := _title_in(lines, delimiter):
        raise UnclearLayout(f"line {2 if named else 1}: {fault}")
    return CsvLayout(delimiter, int(bool(named)), lines[0].count(delimiter) + 1)


def _title_in(lines: list[str], delimiter: str) -> str | None:
    """Returns what is wrong with a header if at least a third of it is blank after the first name, and half
    of the first rows have values there: Excel writes titles and merged cells this way. Blank cells
    before the first name are index columns, which pandas and R leave unnamed.
    """
    header, *rows = [[cell.strip(' "') for cell in line.split(delimiter)] for line in lines[: 1 + _SAMPLED_ROWS]]
    names = [index for index, name in enumerate(header) if name]
    blank = [index for index in range(names[0] if names else 0, len(header)) if not header[index]]
    is_blank = len(header) > 1 and (len(names) < 2 or 2 <= len(blank) >= len(names) / 2)
    filled = sum(any(row[index] for index in blank if index < len(row)) for row in rows)
    if not is_blank or filled == 0 or 2 * filled < len(rows):
        return None
    return (
        f"the header names only {len(names)} of {len(header)} columns, but rows have values in the unnamed ones; "
        "start the file with a row of column names"
    )


@dataclass(frozen=True)
class _Candidate:
    """A candidate delimiter, the first lines parsed with it, and the number of rows with the same field count
    as the header.
    """

    mark: str
    lines: list[str]
    fitting: int

    @property
    def count(self) -> int:
        return self.lines[0].count(self.mark)


def _delimiter_of(text: str, *, is_cut: bool) -> str:
    """Returns the header's delimiter. If several delimiters fit equally many rows: exclude one that splits
    brackets or only pads another; prefer a tab; treat commas as cell text if all are decimal commas or
    followed by a space. A header with no delimiter is rejected as a title if most rows contain the same
    number of one delimiter.
    """
    candidates: list[_Candidate] = []
    of_rows = ""
    for mark in _DELIMITERS:
        lines = _lines(text, mark)[: -1 if is_cut else None][: 1 + _SAMPLED_ROWS] or [""]
        header, *rows = lines
        faulty = re.compile(rf"\0 *[^ {mark}]")
        count = header.count(mark)
        if count:
            fits = [has_fields(row, row.count(mark), count, mark) and not faulty.search(row) for row in rows]
            candidates.append(_Candidate(mark, lines, -1 if faulty.search(header) else sum(fits)))
        if mark != "," and _is_usual(mark, rows):
            of_rows = of_rows or mark
    if not candidates and of_rows:
        raise UnclearLayout(
            f'line 1: the header contains no "{of_rows}", but the rows do; start the file with a row of column names, '
            "or with the line sep=, if it has only one column"
        )
    best = [one for one in candidates if one.fitting == max(other.fitting for other in candidates)]
    best = [one for one in best if not _cuts_brackets(one) and not _is_padding(one)] or best
    # A tab is unlikely to be part of a cell.
    if any(one.mark == "\t" for one in best):
        return "\t"
    if len(best) > 1 and best[0].mark == "," and best[0].fitting > 0:
        comma, *others = best
        best = others if all(_has_commas_in_cells(other, comma) for other in others) else best
    if len(best) > 1:
        first, second = best[0].mark, best[1].mark
        raise UnclearLayout(
            f'line 1: the delimiter could be "{first}" or "{second}"; '
            f"add the line sep={first} or sep={second} before the header"
        )
    return best[0].mark if best else ","


def _is_balanced(text: str) -> bool:
    return len(re.split(r"[(\[{]", text)) == len(re.split(r"[)\]}]", text))


def _cuts_brackets(one: _Candidate) -> bool:
    """Returns whether a delimiter splits a pair of brackets, in lines without stray quotes."""
    lines = (line for line in one.lines if '"' not in line and _is_balanced(line))
    return any(not all(map(_is_balanced, line.split(one.mark))) for line in lines)


def _is_padding(one: _Candidate) -> bool:
    """Returns whether all tabs are next to other delimiters or at the ends of lines."""
    cells = (cell for line in one.lines for cell in re.split("[,;|]", line))
    return one.mark == "\t" and not any("\t" in cell.strip() for cell in cells)


def _has_commas_in_cells(other: _Candidate, comma: _Candidate) -> bool:
    """Returns whether the other delimiter splits the header and the commas look like cell text: there are few
    (at most one per cell, or no more commas than other delimiters), and all are decimal commas or, unlike
    the other delimiter, followed by a space.
    """
    mark = other.mark
    splits_names = any(name.strip() for name in other.lines[0].split(mark)[1:])
    are_few = other.count >= comma.count or not any(re.search(f",[^{mark}]*,", line) for line in other.lines)
    are_decimal = not any(re.search(r"(?<!\d),|,(?!\d)", row) for row in comma.lines[1:])
    return splits_names and are_few and (are_decimal or (_is_spaced(comma) and not _is_spaced(other)))


def _is_spaced(one: _Candidate) -> bool:
    """Returns whether every delimiter is followed by a space, and none precedes a quoted cell."""
    return not any(re.search(f'[{one.mark}](?! )|[{one.mark}] *"', line) for line in one.lines)


def _is_usual(mark: str, rows: list[str]) -> bool:
    """Returns whether more than half of the rows contain a delimiter the same number of times."""
    counts = Counter(row.count(mark) for row in rows if mark in row)
    return any(2 * count > len(rows) for count in counts.values())


def has_fields(text: str, delimiters: int, expected: int, delimiter: str) -> bool:
    """Returns whether a row has as many delimiters as the header. Extra ones are allowed only at the end, as in
    DuckDB.
    """
    surplus = delimiters - expected
    return surplus >= 0 and text.rstrip("\r\n").endswith(delimiter * surplus)


def _lines(text: str, delimiter: str) -> list[str]:
    """Returns the lines that are not blank, with a NUL for each quoted cell that is not empty."""
    bare = re.sub(rf'(^|[{delimiter}\r\n]) ?(?!""(?:[{delimiter}\r\n]|\Z))"(?:[^"]|"")*(?:"|\Z)', "\\1\0", text)
    return [line for line in re.split(r"\r\n|\r|\n", bare) if line] or [""]


def records_of(lines: Iterable[str], layout: CsvLayout) -> Iterator[CsvRecord]:
    """Yields the header and the rows of a file that was opened with `newline=""`, without blank lines."""
    cell = re.compile(rf'(^|{re.escape(layout.delimiter)}) ?("[^"]*(?:""[^"]*)*)("?) *')
    behind = re.compile(rf'\0"[^{layout.delimiter}\r\n]')
    parts: list[str] = []
    begin, delimiters, is_open, fault = 0, 0, False, None
    for number, line in enumerate(lines, 1):
        # In a file with one column, a blank line is a missing value.
        if number <= layout.skipped_lines or (layout.columns > 1 and not is_open and not line.rstrip("\r\n")):
            continue
        begin = begin if is_open else number
        if is_open or '"' in line:
            closing = _CLOSING.match(line) if is_open else None
            if is_open and not closing:
                parts.append(line)
                continue
            closed = closing[0] if closing else ""
            # A quoted cell is represented by a NUL and its closing quote.
            rest = ('\0"' if closed else "") + line[len(closed) :]
            bare = cell.sub("\\1\0\\3", rest)
            is_open = bare.endswith("\0")
            if behind.search(bare):
                fault = "text after the closing quote of a field"
            delimiters += bare.count(layout.delimiter)
            has_blanks = ' "' in rest or '" ' in rest
            plain = cell.sub(r"\1\2\3", rest) if has_blanks else rest
            parts.append(closed.rstrip(" ") + (plain[2:] if closed else plain))
        else:
            delimiters += line.count(layout.delimiter)
            parts.append(line)
        if not is_open:
            yield CsvRecord(begin, "".join(parts), delimiters, fault)
            parts, delimiters, fault = [], 0, None
    if is_open:
        yield CsvRecord(begin, "".join(parts), delimiters, "a quote is opened and never closed")
