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

from ..errors import JobError
from ..job import Job
from ..labels import MAX_CLASSES, MAX_FRACTIONS
from ..protocol import warn_about_data
from ..wording import counted
from .budget import Budget
from .cells import ERRORS, Numbers, point_meaning, read_numbers, without_blanks, without_marks
from .csv_layout import MISSING
from .csv_reader import BLOCK_BYTES, CsvFile, column_names
from .headers import report_values_as_names
from .hf_dataset import read_hf_dataset, read_parquet

Reader = Callable[[Path, Budget], pa.Table]
# The original text of columns whose numbers may be codes: whole numbers, some with leading zeros, and, where
# classes are learned, numbers that are written in several ways, such as 1.1 and 1.10.
Codes = dict[str, pa.ChunkedArray]


def read_table(job: Job, codes: Codes | None = None) -> pa.Table:
    """Reads the dataset as a table. Column types are number, boolean, timestamp, string, or something nested.
    `codes` receives the text of CSV columns whose numbers may be codes. Without it, a warning names whole
    numbers that become one number because they differ only in leading zeros.
    """
    files: list[Codes] = []

    def read_csv(path: Path, budget: Budget) -> pa.Table:
        files.append({})
        return _read_csv(path, budget, files[-1], has_classes=codes is not None)

    readers: dict[str, Reader] = {
        "csv": read_csv,
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
    table = pa.table({name: _plain(name, table.column(name)) for name in table.column_names})
    for name in dict.fromkeys(name for file in files for name in file):
        if not (pa.types.is_integer(kind := table.column(name).type) or pa.types.is_floating(kind)):
            continue
        texts = _joined_codes(name, tables, files)
        if codes is None:
            report_merged_codes(name, texts)
        else:
            codes[name] = texts
    return table


def _joined_codes(name: str, tables: list[pa.Table], files: list[Codes]) -> pa.ChunkedArray:
    """Returns a column from several files as text. In files where its numbers can't be codes, they are
    converted back to text.
    """
    chunks: list[pa.Array] = []
    for table, codes in zip(tables, files, strict=True):
        if name in codes:
            chunks += codes[name].chunks
        elif name in table.column_names:
            chunks += pc.cast(table.column(name), pa.string()).chunks
        else:
            chunks.append(pa.nulls(table.num_rows, pa.string()))
    return pa.chunked_array(chunks, pa.string())


def _refuse_duplicates(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise JobError(f"The dataset has two columns named '{name}'.", code="bad_dataset", column=name)
        seen.add(name)


def _read_csv(path: Path, budget: Budget, codes: Codes, *, has_classes: bool) -> pa.Table:
    # Everything is read as text first, because types guessed from the first block would fail on a later value
    # that doesn't fit.
    file = CsvFile(path)
    with file.open() as reader:
        header = reader.schema.names
    names = column_names(header)
    _refuse_duplicates(names)
    convert = pa_csv.ConvertOptions(
        column_types={name: pa.string() for name in header},
        # Spreadsheet errors count as missing too, but only after they have been counted.
        null_values=[mark for mark in MISSING if mark not in ERRORS],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    with file.open(convert) as reader:
        read = budget.collect(reader, reader.schema)
    table = pa.table([without_blanks(column) for column in read.columns], names)
    without_name = {name for name, written in zip(names, header, strict=True) if not written.strip(" ")}
    empty = {name for name in without_name if table.column(name).null_count == table.num_rows}
    points = point_meaning(table.columns, file.delimiter)
    typed: dict[str, pa.ChunkedArray] = {}
    for name in names:
        if name in empty:
            continue
        texts = table.column(name)
        typed[name], is_plain = _typed(name, texts, points)
        if is_plain and (has_padded_numbers(texts) or (has_classes and _is_spelt_variously(texts, typed[name]))):
            codes[name] = without_marks(texts)
    written = {name: table.column(name) for name in typed}
    numeric = [
        name for name, column in typed.items() if pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    ]
    report_values_as_names(list(typed), written, numeric)
    return pa.table(typed)


def has_padded_numbers(texts: pa.ChunkedArray) -> bool:
    """Returns whether a whole number is written with leading zeros."""
    return bool(pc.any(pc.match_substring_regex(texts, r"^\s*[+-]?0\d+\s*$")).as_py())


def _is_spelt_variously(texts: pa.ChunkedArray, numbers: pa.ChunkedArray) -> bool:
    """Returns whether a column with few distinct numbers, such as classes, has several spellings of the same
    number.
    """
    if not pa.types.is_floating(numbers.type):
        return False
    different = pc.unique(numbers.drop_null())
    is_fractional = pc.any(pc.not_equal(different, pc.floor(different))).as_py()
    if len(different) > (MAX_FRACTIONS if is_fractional else MAX_CLASSES):
        return False
    return len(pc.unique(without_marks(texts).drop_null())) > len(different)


def _typed(name: str, column: pa.ChunkedArray, points: str | None) -> tuple[pa.ChunkedArray, bool]:
    """Converts a text column to the narrowest type that fits all its values; also returns whether they are
    plain numbers.
    """
    column = _without_errors(name, column)
    texts = without_marks(column)
    if texts.null_count == len(column):
        return texts, False
    numbers = read_numbers(column, points)
    if numbers is not None:
        report_numbers(name, column, numbers)
        return numbers.column, numbers.how is None
    lowered = pc.utf8_lower(texts)
    if pc.all(pc.is_in(lowered, pa.array(["true", "false", None]))).as_py():
        return pc.equal(lowered, "true"), False
    moments = _as_timestamp(texts)
    return column if moments is None else moments, False


def _without_errors(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_error = pc.fill_null(pc.is_in(pc.utf8_trim_whitespace(column), pa.array(ERRORS)), False)
    count = pc.sum(is_error).as_py() or 0
    if count == 0:
        return column
    row = pc.index(is_error, True).as_py()
    warn_about_data(
        f"{counted(count, 'cell')} of '{name}' {'holds an error' if count == 1 else 'hold errors'} from a spreadsheet "
        f"and {'counts' if count == 1 else 'count'} as missing; the first is '{column[row]}' in row {row + 1}.",
        column=name,
        count=count,
        row=row + 1,
    )
    return pc.if_else(is_error, pa.scalar(None, pa.string()), column)


def report_numbers(name: str, column: pa.ChunkedArray, numbers: Numbers) -> None:
    """Warns about text that is read as numbers although its notation isn't plain."""
    if numbers.how is None:
        return
    row = numbers.row
    if row is None:
        row = pc.index(pc.fill_null(pc.is_valid(without_marks(column)), False), True).as_py()
    warn_about_data(
        f"Column '{name}' is read as {numbers.how}: '{str(column[row])[:60]}' in row {row + 1} is "
        f"{numbers.column[row]}.",
        column=name,
        row=row + 1,
    )


def report_merged_codes(name: str, texts: pa.ChunkedArray) -> None:
    """Warns about numbers that are written in several ways: if they are codes, different codes become one
    value.
    """
    if found := spellings_of_one(texts):
        other, text, row = found
        warn_about_data(
            f"'{other}' and '{text}' (row {row}) in '{name}' are read as one number, {float(text):.15g}. If they are "
            "different codes, write a letter before each, so that they are read as text.",
            column=name,
            row=row,
        )


def spellings_of_one(texts: pa.ChunkedArray) -> tuple[str, str, int] | None:
    """Returns the first two spellings of one number, and the row of the second, from 1."""
    spellings: dict[float, str] = {}
    for text in pc.unique(texts.drop_null()).to_pylist():
        number = int(text) if len(text) < 19 and text.lstrip("+-").isdecimal() else float(text)
        other = spellings.setdefault(number, text)
        if other.lstrip("+-") != text.lstrip("+-"):
            return other, text, pc.index(texts, text).as_py() + 1
    return None


def _as_timestamp(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    for kind in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        try:
            return pc.cast(column, kind)
        except pa.ArrowInvalid:
            continue
    return None


def _read_jsonl(path: Path, budget: Budget) -> pa.Table:
    # The rows use at least as much memory as the file has bytes.
    budget.take(path.stat().st_size)
    try:
        return pa_json.read_json(path, read_options=pa_json.ReadOptions(block_size=BLOCK_BYTES))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # The file has values of mixed types or a bad line. Reading it line by line shows which.
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


def _plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Converts number, boolean, timestamp and string columns to one representation each;
    others stay as they are."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(name, pc.cast(column, kind.value_type))
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        return _finite(name, pc.cast(column, pa.float64(), safe=False))
    if pa.types.is_integer(kind):
        try:
            return pc.cast(column, pa.int64())
        except pa.ArrowInvalid:
            # Unsigned numbers beyond 2^63 would become negative.
            return pc.cast(column, pa.float64(), safe=False)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pc.cast(column, pa.timestamp("us", tz=getattr(kind, "tz", None)), safe=False)
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        column = pc.cast(column, pa.string())
    if pa.types.is_string(column.type) and column.null_count < len(column):
        moments = _as_timestamp(column)
        return column if moments is None else moments
    return column


def _finite(name: str, floats: pa.ChunkedArray) -> pa.ChunkedArray:
    is_infinite = pc.fill_null(pc.is_inf(floats), False)
    count = pc.sum(is_infinite).as_py() or 0
    if count:
        row = pc.index(is_infinite, True).as_py() + 1
        warn_about_data(
            f"{counted(count, 'value')} in '{name}' {'is' if count == 1 else 'are'} infinite or too large and "
            f"{'counts' if count == 1 else 'count'} as missing; the first is in row {row}.",
            column=name,
            count=count,
            row=row,
        )
    return pc.if_else(pc.is_finite(floats), floats, pa.scalar(None, pa.float64()))
