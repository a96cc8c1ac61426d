"""Opens CSV files for pyarrow as the platform reads them (`platform/datasets/csv.ts`)."""

from __future__ import annotations

import io
import mmap
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from .csv_layout import CsvLayout, UnclearLayout, has_fields, layout_of, records_of
from .errors import JobError

_RECORDS = 10_000


class CsvFile:
    """A CSV file, and how it is laid out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._layout = layout_of(path)
        except UnclearLayout as error:
            raise JobError(f"The dataset cannot be read as csv: {error}.", code="bad_dataset") from error
        self._is_unusual = _is_unusual(path, self._layout)

    @property
    def delimiter(self) -> str:
        """The text between the cells."""
        return self._layout.delimiter

    def open(
        self, convert: pa_csv.ConvertOptions | None = None, block_size: int | None = None
    ) -> pa_csv.CSVStreamingReader:
        """Opens the file, which has a header."""
        # A blank line of one column is a missing value, and the profile of the dataset counts it as a row.
        parse = pa_csv.ParseOptions(
            delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=self._layout.columns > 1
        )
        skipped = 0 if self._is_unusual else self._layout.skipped_lines
        read = pa_csv.ReadOptions(block_size=block_size, skip_rows=skipped)
        source = _PlainRecords.opened(self._path, self._layout) if self._is_unusual else self._path
        return pa_csv.open_csv(source, read_options=read, parse_options=parse, convert_options=convert)


def _is_unusual(path: Path, layout: CsvLayout) -> bool:
    """Returns whether a file may have blanks around quoted cells or rows that end at a delimiter, which pyarrow does not read
    as others do."""
    if path.stat().st_size == 0:
        return False
    mark = re.escape(layout.delimiter).encode()
    unusual = re.compile(rb'(?:\A|[%b\r\n]) "|" +[%b\r\n]|" +\Z|%b(?:[\r\n]|\Z)' % (mark, mark, mark))
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return unusual.search(content) is not None


class _PlainRecords(io.RawIOBase):
    """The records of a file, without blanks around quoted cells and with as many fields as the header has."""

    def __init__(self, path: Path, layout: CsvLayout) -> None:
        self._file = path.open(encoding="utf-8-sig", newline="")
        self._texts = self._plain(layout)
        self._held = b""

    @classmethod
    def opened(cls, path: Path, layout: CsvLayout) -> pa.PythonFile:
        return pa.PythonFile(io.BufferedReader(cls(path, layout), 1 << 20), mode="r")

    def _plain(self, layout: CsvLayout) -> Iterator[str]:
        for record in records_of(self._file, layout):
            surplus = record.delimiters + 1 - layout.columns
            if surplus > 0 and has_fields(record.text, surplus, 0, layout.delimiter):
                bare = record.text.rstrip("\r\n")
                yield bare[:-surplus] + record.text[len(bare) :]
            else:
                yield record.text

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        if not self._held:
            self._held = "".join(islice(self._texts, _RECORDS)).encode()
        count = min(len(target), len(self._held))
        target[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def column_names(header: Sequence[str]) -> list[str]:
    """Names the columns without the blanks around their names. Those that have no name are named as pandas does: the index
    that it writes comes back as `Unnamed: 0`."""
    written = [name.strip(" ") for name in header]
    taken = set(written)
    names = []
    for index, name in enumerate(written):
        free = name or f"Unnamed: {index}"
        while not name and free in taken:
            free += "_"
        names.append(free)
    return names
