"""How a CSV file is laid out, by the rules of `platform/datasets/csv-scan.ts`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.csv as pa_csv

_DELIMITERS = (";", "\t", "|")
# A line that Excel writes and reads before the header.
_SEPARATOR_LINE = re.compile(r'"?sep=([,;\t|])"?', re.IGNORECASE)
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


@dataclass(frozen=True)
class CsvLayout:
    """The delimiter, whether a line with it comes before the header, and whether there is one column only."""

    delimiter: str
    has_separator_line: bool
    has_one_column: bool

    def parse_options(self) -> pa_csv.ParseOptions:
        """Returns the options of pyarrow for this file."""
        # A blank line of one column is a missing value, and the profile of the dataset counts it as a row.
        return pa_csv.ParseOptions(
            delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=not self.has_one_column
        )

    def read_options(self, block_size: int | None = None) -> pa_csv.ReadOptions:
        """Returns the options of pyarrow for this file."""
        return pa_csv.ReadOptions(block_size=block_size, skip_rows=int(self.has_separator_line))


def layout_of(path: Path) -> CsvLayout:
    """Reads the start of a file."""
    with path.open("r", encoding="utf-8-sig", errors="replace", newline="") as stream:
        header = stream.readline()
        named = _SEPARATOR_LINE.fullmatch(header.rstrip("\r\n"))
        if named:
            header = stream.readline()
        while header.count('"') % 2 == 1 and len(header) < 1 << 20 and (line := stream.readline()):
            header += line
    bare = _QUOTED.sub("", header)
    most = max(_DELIMITERS, key=bare.count)
    delimiter = named[1] if named else "," if "," in bare or most not in bare else most
    return CsvLayout(delimiter, has_separator_line=bool(named), has_one_column=delimiter not in bare)


def column_names(header: Sequence[str]) -> list[str]:
    """Names the columns that have no name, as pandas does: the index that it writes comes back as `Unnamed: 0`."""
    taken = set(header)
    names = []
    for index, name in enumerate(header):
        free = name or f"Unnamed: {index}"
        while not name and free in taken:
            free += "_"
        names.append(free)
    return names
