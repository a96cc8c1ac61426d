"""Reads the rows of a dataset as they were written: no text is converted to a number, a
date or a missing value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv as pa_csv

from ..datasets.budget import Budget
from ..datasets.csv_reader import CsvFile, column_names
from ..datasets.headers import report_values_as_names
from ..datasets.hf_dataset import read_hf_dataset, read_parquet
from ..errors import JobError
from ..job import Job

Row = dict[str, Any]


def read_rows(job: Job) -> list[Row]:
    """Returns all rows, in order."""
    readers = {"csv": _read_csv, "jsonl": _read_jsonl, "parquet": _read_parquet, "hf_dataset": _read_hf}
    reader = readers.get(job.format)
    if reader is None:
        raise JobError(f"The dataset format '{job.format}' is not known.", code="bad_job")
    budget = Budget(job.memory_mb)
    try:
        rows = [row for path in job.paths for row in reader(path, budget)]
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError, OSError) as error:
        raise JobError(f"The dataset cannot be read as {job.format}: {error}", code="bad_dataset") from error
    if not rows:
        raise JobError("The dataset has no rows.", code="too_few_rows")
    return rows


def _read_jsonl(path: Path, budget: Budget) -> Iterator[Row]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            budget.take(len(line))
            try:
                row = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
            except ValueError as error:
                raise JobError(f"Line {number} is not JSON: {error}", code="bad_dataset", row=number) from error
            if not isinstance(row, dict):
                raise JobError(f"Line {number} is not a JSON object.", code="bad_dataset", row=number)
            yield row


def _read_csv(path: Path, budget: Budget) -> list[Row]:
    budget.take(path.stat().st_size)
    file = CsvFile(path)
    with file.open() as reader:
        header = reader.schema.names
    convert = pa_csv.ConvertOptions(column_types={name: pa.string() for name in header}, strings_can_be_null=False)
    with file.open(convert) as reader:
        table = reader.read_all().rename_columns(column_names(header))
    report_values_as_names(table.column_names, dict(zip(table.column_names, table.columns, strict=True)), ())
    return table.to_pylist()


def _read_parquet(path: Path, budget: Budget) -> list[Row]:
    return _arrow_rows(read_parquet(path, budget))


def _read_hf(path: Path, budget: Budget) -> list[Row]:
    return _arrow_rows(read_hf_dataset(path, budget))


def _arrow_rows(table: pa.Table) -> list[Row]:
    return [{name: _without_nulls(value) for name, value in row.items()} for row in table.to_pylist()]


def _without_nulls(value: Any) -> Any:
    """Removes the nulls that Arrow adds for members that only other rows' objects have. JSON lines and JSON in
    strings keep their nulls: their author wrote them, for example for an optional argument of a tool call.
    """
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
