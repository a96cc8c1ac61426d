"""Reads a dataset of any accepted format into one Arrow table with plain column types."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from .budget import Budget
from .errors import JobError
from .hf_dataset import read_hf_dataset, read_parquet
from .job import Job

# Texts in a CSV file that mean a missing value.
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"]
_BLOCK = 8 << 20
Reader = Callable[[Path, Budget], pa.Table]


def read_table(job: Job) -> pa.Table:
    """Reads the dataset as a table. Column types are number, boolean, timestamp,
    string, or something nested."""
    readers: dict[str, Reader] = {
        "csv": _read_csv,
        "jsonl": _read_jsonl,
        "parquet": read_parquet,
        "hf_dataset": read_hf_dataset,
    }
    reader = readers.get(job.format)
    if reader is None:
        raise JobError(f"The dataset format '{job.format}' is not known.", code="bad_job")
    try:
        budget = Budget(job.memory_mb)
        tables = [reader(path, budget) for path in job.paths]
        table = pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else tables[0]
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError, OSError) as error:
        raise JobError(f"The dataset cannot be read as {job.format}: {error}", code="bad_dataset") from error
    if table.num_columns == 0 or table.num_rows == 0:
        raise JobError("The dataset has no rows.", code="too_few_rows")
    _refuse_duplicates(table.column_names)
    return pa.table({name: _plain(table.column(name)) for name in table.column_names})


def _refuse_duplicates(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise JobError(f"The dataset has two columns named '{name}'.", code="bad_dataset", column=name)
        seen.add(name)


def _read_csv(path: Path, budget: Budget) -> pa.Table:
    # Everything is read as text first, because types guessed from the first block would
    # fail on a late exception.
    delimiter = delimiter_of(path)
    parse = pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    with pa_csv.open_csv(path, parse_options=parse) as reader:
        names = reader.schema.names
    _refuse_duplicates(names)
    convert = pa_csv.ConvertOptions(
        column_types={name: pa.string() for name in names},
        null_values=_MISSING,
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    read = pa_csv.ReadOptions(block_size=_BLOCK)
    with pa_csv.open_csv(path, read_options=read, parse_options=parse, convert_options=convert) as reader:
        table = budget.collect(reader, reader.schema)
    return pa.table({name: _typed(table.column(name)) for name in table.column_names})


def delimiter_of(path: Path) -> str:
    """Returns the delimiter of a CSV file, judged by its first line."""
    with path.open("r", encoding="utf-8-sig", errors="replace") as stream:
        header = stream.readline()
    found = {mark: header.count(mark) for mark in (",", ";", "\t", "|")}
    return "," if found[","] else max(found, key=lambda mark: found[mark])


def _typed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Converts a text column to the narrowest type that all its values fit."""
    if column.null_count == len(column):
        return column
    trimmed = pc.utf8_trim_whitespace(column)
    for kind in (pa.int64(), pa.float64()):
        try:
            return pc.cast(trimmed, kind)
        except pa.ArrowInvalid:
            continue
    lowered = pc.utf8_lower(trimmed)
    if pc.all(pc.is_in(lowered, pa.array(["true", "false", None]))).as_py():
        return pc.equal(lowered, "true")
    moments = _as_timestamp(trimmed)
    return column if moments is None else moments


def _as_timestamp(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    for kind in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        try:
            return pc.cast(column, kind)
        except pa.ArrowInvalid:
            continue
    return None


def _read_jsonl(path: Path, budget: Budget) -> pa.Table:
    # The rows use at least as much memory as they have bytes in the file.
    budget.take(path.stat().st_size)
    try:
        return pa_json.read_json(path, read_options=pa_json.ReadOptions(block_size=_BLOCK))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # The file has values of mixed types or a bad line. Reading it line by line finds which.
        return _read_jsonl_slowly(path)


def _read_jsonl_slowly(path: Path) -> pa.Table:
    columns: dict[str, list[Any]] = {}
    rows = 0
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise JobError(f"Line {number} is not JSON: {error}", code="bad_dataset", row=number) from error
            if not isinstance(record, dict):
                raise JobError(f"Line {number} is not a JSON object.", code="bad_dataset", row=number)
            for name, value in record.items():
                columns.setdefault(name, [None] * rows).append(value)
            rows += 1
            for values in columns.values():
                if len(values) < rows:
                    values.append(None)
    return pa.table({name: _array(values) for name, values in columns.items()})


def _array(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([value if value is None or isinstance(value, str) else json.dumps(value) for value in values])


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Converts number, boolean, timestamp and string columns to one representation each;
    others stay as they are."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(pc.cast(column, kind.value_type))
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        floats = pc.cast(column, pa.float64(), safe=False)
        return pc.if_else(pc.is_finite(floats), floats, pa.scalar(None, pa.float64()))
    if pa.types.is_integer(kind):
        return pc.cast(column, pa.int64(), safe=False)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pc.cast(column, pa.timestamp("us", tz=getattr(kind, "tz", None)), safe=False)
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        column = pc.cast(column, pa.string())
    if pa.types.is_string(column.type) and column.null_count < len(column):
        moments = _as_timestamp(column)
        return column if moments is None else moments
    return column
