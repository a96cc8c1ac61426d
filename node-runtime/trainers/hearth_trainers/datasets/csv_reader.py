"""Opens CSV files for pyarrow as the platform reads them (`platform/datasets/csv.ts`)."""

from __future__ import annotations

import mmap
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow.csv as pa_csv

from ..errors import JobError
from .csv_layout import CsvLayout, UnclearLayout, has_fields, layout_of, records_of

# A row must fit into one block; uploads accept rows of up to 8 MB.
BLOCK_BYTES = 8 << 20


class CsvFile:
    """A CSV file and its layout."""

    def __init__(self, path: Path) -> None:
        try:
            self._layout = layout_of(path)
        except UnclearLayout as error:
            raise JobError(f"The dataset cannot be read as csv: {error}.", code="bad_dataset") from error
        # The copy is removed with this object.
        self._copy = _plain_copy(path, self._layout) if _is_unusual(path, self._layout) else None
        self._path = Path(self._copy.name) if self._copy else path

    @property
    def delimiter(self) -> str:
        """The text between the cells."""
        return self._layout.delimiter

    def open(self, convert: pa_csv.ConvertOptions | None = None) -> pa_csv.CSVStreamingReader:
        """Opens the file, which has a header."""
        # In a file with one column, a blank line is a missing value, and the dataset's profile counts it as a
        # row.
        parse = pa_csv.ParseOptions(
            delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=self._layout.columns > 1
        )
        skipped = 0 if self._copy else self._layout.skipped_lines
        read = pa_csv.ReadOptions(block_size=BLOCK_BYTES, skip_rows=skipped)
        return pa_csv.open_csv(self._path, read_options=read, parse_options=parse, convert_options=convert)


def _is_unusual(path: Path, layout: CsvLayout) -> bool:
    """Returns whether a file may have spaces around quoted cells or rows that end with a delimiter, which
    pyarrow reads differently from other parsers.
    """
    if path.stat().st_size == 0:
        return False
    mark = layout.delimiter.encode()
    # Searching for each sign separately takes a tenth of the time that one combined pattern takes.
    signs = [mark + b' "', b'\n "', b'\r "', b'" ' + mark, b'" \r', b'" \n', b'"  ', mark + b"\r", mark + b"\n"]
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        ends = (
            content[:5].removeprefix(b"\xef\xbb\xbf").startswith(b' "') or content[-2:] == b'" ' or content[-1:] == mark
        )
        if ends or not any(content.find(sign) >= 0 for sign in signs):
            return ends
        # The signs may all be inside quoted cells, which match as a whole: group 1 is then the space after
        # the cell, or empty. Other matches have no group.
        mark = re.escape(mark)
        starts = rb'(?:(?<=\A")|(?<=\A\xef\xbb\xbf")|(?<=[' + mark + rb'\r\n]"))'
        quoted = rb'"' + starts + rb'[^"]*(?:""[^"]*)*"( ?)'
        pattern = re.compile(quoted + rb"|" + mark + rb'(?= "|[\r\n])|\r(?= ")|\n(?= ")')
        return any(match[1] != b"" for match in pattern.finditer(content))


def _plain_copy(path: Path, layout: CsvLayout) -> tempfile._TemporaryFileWrapper[str]:
    """Copies the records without spaces around quoted cells, and with as many fields as the header has."""
    copy = tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="", suffix=".csv")  # noqa: SIM115 (the caller closes it)
    with path.open(encoding="utf-8-sig", newline="") as stream:
        for record in records_of(stream, layout):
            surplus = record.delimiters + 1 - layout.columns
            if surplus > 0 and has_fields(record.text, surplus, 0, layout.delimiter):
                bare = record.text.rstrip("\r\n")
                copy.write(bare[:-surplus] + record.text[len(bare) :])
            else:
                copy.write(record.text)
    copy.flush()
    return copy


def column_names(header: Sequence[str]) -> list[str]:
    """Returns the column names without the spaces around them. Columns without a name are named as in pandas:
    the index that it writes is read back as `Unnamed: 0`.
    """
    written = [name.strip(" ") for name in header]
    taken = set(written)
    names = []
    for index, name in enumerate(written):
        free = name or f"Unnamed: {index}"
        while not name and free in taken:
            free += "_"
        names.append(free)
    return names
