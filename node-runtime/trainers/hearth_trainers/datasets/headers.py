"""Detects a CSV file without a header, whose first row is then mistaken for column names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ..protocol import warn_about_data

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+")
# A name rarely has more words than this, and a column with more distinct values than this contains no labels.
_MAX_NAME_WORDS = 3
_MAX_LABELS = 20
_DATE = r"^\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?$"


def report_values_as_names(names: Sequence[str], texts: Mapping[str, pa.ChunkedArray], numeric: Iterable[str]) -> None:
    """Warns when column names look like values: a fraction above numbers, a date above dates, or text that
    its column repeats. Years and pixel indices are names too, so ascending whole numbers count only next
    to a sentence. Other whole numbers count if every name looks like a value, or if the column has them as
    labels. `texts` are the columns as written; `numeric` names the columns of numbers.
    """
    numbers = {name for name in numeric if _NUMBER.fullmatch(name.strip())}
    sure = {name for name in numbers if not name.strip().lstrip("+-").isdecimal()}
    sure |= {name for name in texts if name not in numbers and _is_value(name, texts[name])}
    sure |= _labels(names, texts)
    if not sure:
        whole = [int(name) for name in names if name in numbers]
        if len(whole) < len(names) or whole == sorted(whole):
            return
        sure = numbers
    if _is_repeated(names, texts):
        return
    shown = " and ".join(f"'{name[:40]}'" for name in [name for name in names if name in sure][:2])
    warn_about_data(
        f"The first row of the file is read as its column names, but {shown} "
        f"{'look' if len(sure) > 1 else 'looks'} "
        "like values. If the file has no header, add one: its first row is missing from the data.",
        column=next(name for name in names if name in sure),
    )


def _is_value(name: str, texts: pa.ChunkedArray) -> bool:
    if re.match(_DATE, name):
        first = next((text for text in texts.slice(0, 10).to_pylist() if text is not None), "")
        return re.match(_DATE, first) is not None
    # A single letter is often both a name and a value: a column 'y' may contain 'y' and 'n'.
    return len(name.strip()) > 1 and _repeats(texts, name)


def _labels(names: Sequence[str], texts: Mapping[str, pa.ChunkedArray]) -> set[str]:
    """Returns the names that look like a row's label, and the sentences next to them."""
    sentences = {name for name in names if len(name.split()) > _MAX_NAME_WORDS}
    whole = [name for name in names if _WHOLE.fullmatch(name.strip())]
    order = [int(name) for name in whole]
    if not sentences and len(whole) > 1 and order == sorted(order):
        return set()
    short = [name for name in names if len(name.strip()) == 1] if sentences else []
    labels = {name for name in [*whole, *short] if name in texts and _is_label(name, texts[name])}
    return labels | sentences if labels else set()


def _is_label(name: str, texts: pa.ChunkedArray) -> bool:
    return _repeats(texts, name) and pc.count_distinct(texts).as_py() <= _MAX_LABELS


def _repeats(texts: pa.ChunkedArray, name: str) -> bool:
    """Returns whether several rows, but not all, contain the column's name. A mark at the end of each row
    would be in all of them.
    """
    count = pc.sum(pc.equal(pc.utf8_trim_whitespace(texts), name.strip())).as_py() or 0
    return 1 < count < len(texts)


def _is_repeated(names: Sequence[str], texts: Mapping[str, pa.ChunkedArray]) -> bool:
    """Returns whether the header appears again as a row, as in concatenated files."""
    rows: pa.ChunkedArray | None = None
    for name in names:
        if name in texts:
            same = pc.fill_null(pc.equal(texts[name], name), False)
            rows = same if rows is None else pc.and_(rows, same)
    return rows is not None and bool(pc.any(rows).as_py())
