import json
import math
import os
import re
import sys
from pathlib import Path

import duckdb

# Python in isolated mode does not look for modules next to the program.
sys.path.insert(0, str(Path(__file__).parent))
from csv_layout import UnclearLayout, layout_of, records_of  # noqa: E402

FILE = "/hearth/input/file_url"
MOST_ROWS = 1_000
# Types learnt from some rows would round or drop what comes later.
ALL_ROWS = -1
GUESSED_TYPES = ("DATE", "TIMESTAMP")
# One of them in the name of a type, and no field of that name.
GUESSED = re.compile(r"(?:^|(?<=\s))(DATE|TIMESTAMP)(?=[,)\[]|$)")


class Refused(Exception):
    """The query cannot be answered; the message names the field of the input first."""


def kind_of():
    """Returns the format by the file's first bytes, because its address need not tell."""
    with open(FILE, "rb") as file:
        start = file.read(4096)
    if start.startswith(b"PAR1"):
        return "parquet"
    if not start.strip():
        raise Refused("file_url: the file is empty")
    if b"\0" in start:
        raise Refused("file_url: it is no CSV, JSON or Parquet file")
    return "json" if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else "csv"


def open_table():
    settings = {"temp_directory": "", "memory_limit": "300MB", "threads": "1", "autoload_known_extensions": "false"}
    connection = duckdb.connect(":memory:", config={**settings, "autoinstall_known_extensions": "false"})
    kind = kind_of()
    try:
        READERS[kind](connection).create("data")
    except duckdb.Error as error:
        fault = fault_of_csv() if kind == "csv" else None
        raise Refused(f"file_url: {fault or f'the {kind} file cannot be read: {text_of(error)}'}") from error
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def read_csv(connection):
    """Reads a file as the upload of a dataset does: the header decides the layout, and no row is taken for a title or a
    comment. Dates are read with the year first and left as texts otherwise: DuckDB takes 03/04/2021 for March or April
    depending on other rows."""
    try:
        layout = layout_of(Path(FILE))
    except UnclearLayout as error:
        raise Refused(f"file_url: {error}") from error
    if layout.skipped_lines and Path(FILE).open("rb").read(4) == b'\xef\xbb\xbf"':
        # DuckDB would find no rows.
        raise Refused("file_url: line 1: write the delimiter without quotes, as in sep=;")
    options = (
        f"'{FILE}', delim = '{layout.delimiter}', quote = '\"', escape = '\"', comment = '', skip = {layout.skipped_lines}, "
        "strict_mode = true, null_padding = false"
    )
    # Faulty rows are reported by `read`, which ignores none.
    sniffed = f"select HasHeader, Columns from sniff_csv({options}, sample_size = {ALL_ROWS}, ignore_errors = true)"
    [(has_header, columns)] = connection.execute(sniffed).fetchall()
    # DuckDB does not compare the header with the rows.
    if len(columns) != layout.columns:
        raise Refused(f"file_url: {fault_of_csv() or 'the header cannot be read'}")

    def read(types):
        shown = ", ".join(f"{literal(name)}: '{kind}'" for name, kind in types.items())
        rows = f"select * from read_csv({options}, header = {has_header}, auto_detect = false, columns = {{{shown}}})"
        return connection.sql(rows)

    types = {column["name"]: column["type"] for column in columns}
    dated = {name: kind for name, kind in types.items() if kind in GUESSED_TYPES}
    return read({**types, **kinds_of(read(dict.fromkeys(types, "VARCHAR")), dated)})


def fault_of_csv():
    """Returns what is wrong with the first faulty record, if it is its fields, its quotes or the end of its line."""
    layout = layout_of(Path(FILE))
    endings = set()
    with open(FILE, encoding="utf-8-sig", errors="replace", newline="") as file:
        for record in records_of(file, layout):
            if record.fault:
                return f"line {record.line}: {record.fault}"
            bare = record.text.rstrip("\r\n")
            fields = record.delimiters + 1
            is_trailing = fields == layout.columns + 1 and bare.endswith(layout.delimiter)
            if fields != layout.columns and not is_trailing:
                return f"line {record.line}: {fields} fields where the header has {layout.columns}"
            endings.add(record.text[len(bare) :])
            if len(endings - {""}) > 1:
                return f"line {record.line}: its end is not that of the lines before"
    return None


def read_json(connection):
    """Reads dates as `read_csv` does; those in lists and objects are texts."""
    guess = connection.read_json(FILE, sample_size=ALL_ROWS)
    types = dict(zip(guess.columns, map(str, guess.types), strict=True))
    kinds = {name: GUESSED.sub("VARCHAR", kind) for name, kind in types.items()}
    if kinds == types:
        return guess
    dated = {name: kind for name, kind in types.items() if kind in GUESSED_TYPES}
    return connection.read_json(FILE, columns={**kinds, **kinds_of(connection.read_json(FILE, columns=kinds), dated)})


def kinds_of(texts, dated):
    """Returns the types of columns that may hold dates: those of `dated` where all texts have the year first."""
    if not dated:
        return {}
    year_first = (f"coalesce(bool_and(regexp_matches({quoted(name)}, '^\\s*\\d{{4}}[-/.]')), true)" for name in dated)
    [found] = texts.aggregate(", ".join(year_first)).fetchall()
    return {name: kind if is_date else "VARCHAR" for (name, kind), is_date in zip(dated.items(), found, strict=True)}


READERS = {"csv": read_csv, "json": read_json, "parquet": lambda connection: connection.read_parquet(FILE)}


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def first_line(error):
    return str(error).strip().splitlines()[0]


def text_of(error):
    """Returns the message of DuckDB without its advice about options of its own."""
    lines = str(error).partition("\nPossible ")[0].strip().splitlines()
    return ", ".join(line.strip() for line in lines if line.strip())[:300]


def plain(value):
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def distinct(names):
    """Returns the names with _1, _2 and so on behind those that occur again, because rows hold each name once."""
    own = []
    for name in names:
        free, count = name, 0
        while free in own or (count and free in names):
            count += 1
            free = f"{name}_{count}"
        own.append(free)
    return own


def query(given):
    connection = open_table()
    try:
        found = connection.execute(given["sql"])
        # Texts without a statement have no result at all.
        if found is None or found.description is None:
            raise Refused("sql: it is no query that returns rows")
        rows = found.fetchmany(MOST_ROWS + 1)
    except duckdb.Error as error:
        raise Refused(f"sql: {first_line(error)}") from error
    names = distinct([column[0] for column in found.description])
    columns = [{"name": name, "type": str(column[1])} for name, column in zip(names, found.description, strict=True)]
    kept = [dict(zip(names, map(plain, row), strict=True)) for row in rows[:MOST_ROWS]]
    return {"columns": columns, "rows": kept, "row_count": len(kept), "truncated": len(rows) > MOST_ROWS}


def main():
    os.chdir("/tmp")
    with open("/hearth/input/input.json", encoding="utf-8") as file:
        given = json.load(file)
    try:
        json.dump(query(given), sys.stdout)
    except Refused as error:
        json.dump({"error": {"message": str(error)}}, sys.stdout)
        sys.exit(2)


if __name__ == "__main__":
    main()
