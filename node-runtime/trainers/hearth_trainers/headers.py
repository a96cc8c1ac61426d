"""Notices a CSV file without a header, whose first row is then taken for the names of the columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from .protocol import warn_about_data

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = r"^\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?$"


def report_values_as_names(names: Sequence[str], texts: Mapping[str, pa.ChunkedArray], numeric: Iterable[str]) -> None:
    """Warns when names of columns look like values: a fraction over numbers, a date over dates, or a text that the column
    itself repeats. Whole numbers count only where every name looks like a value and they do not ascend, because years and
    the indices of pixels are names too. `texts` are the columns as they are written; `numeric` names those of numbers."""
    numbers = {name for name in numeric if _NUMBER.fullmatch(name.strip())}
    sure = {name for name in numbers if not name.strip().lstrip("+-").isdecimal()}
    sure |= {name for name in texts if name not in numbers and _is_value(name, texts[name])}
    if not sure:
        whole = [int(name) for name in names if name in numbers]
        if len(whole) < len(names) or whole == sorted(whole):
            return
        sure = numbers
    if _is_repeated(names, texts):
        return
    shown = " and ".join(f"'{name[:40]}'" for name in [name for name in names if name in sure][:2])
    warn_about_data(
        f"The first row of the file counts as the names of its columns, but {shown} {'look' if len(sure) > 1 else 'looks'} "
        "like values. If the file has no header, add one: its first row is missing from the data.",
        column=next(name for name in names if name in sure),
    )


def _is_value(name: str, texts: pa.ChunkedArray) -> bool:
    if re.match(_DATE, name):
        first = next((text for text in texts.slice(0, 10).to_pylist() if text is not None), "")
        return re.match(_DATE, first) is not None
    # One letter is often a name and a value: 'y' and 'n' in 'y'.
    return len(name.strip()) > 1 and (pc.sum(pc.equal(texts, name)).as_py() or 0) > 1


def _is_repeated(names: Sequence[str], texts: Mapping[str, pa.ChunkedArray]) -> bool:
    """Returns whether the header comes again as a row, as in files that were joined."""
    rows: pa.ChunkedArray | None = None
    for name in names:
        if name in texts:
            same = pc.fill_null(pc.equal(texts[name], name), False)
            rows = same if rows is None else pc.and_(rows, same)
    return rows is not None and bool(pc.any(rows).as_py())
