import json
import math
import os
import re
import sys

import duckdb

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
        raise Refused(f"file_url: the {kind} file cannot be read: {first_line(error)}") from error
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def read_csv(connection):
    """Reads dates with the year first, and leaves others as texts: DuckDB takes 03/04/2021 for March or April depending on
    other rows."""
    sniffed = f"select HasHeader, Columns from sniff_csv('{FILE}', sample_size = {ALL_ROWS})"
    [(has_header, columns)] = connection.execute(sniffed).fetchall()
    dated = {column["name"]: column["type"] for column in columns if column["type"] in GUESSED_TYPES}
    if not dated:
        return connection.read_csv(FILE, sample_size=ALL_ROWS)
    # Where texts are named, DuckDB would not find the header of a file of nothing else.
    texts = connection.read_csv(FILE, dtype=dict.fromkeys(dated, "VARCHAR"), header=has_header, sample_size=ALL_ROWS)
    return connection.read_csv(FILE, dtype=kinds_of(texts, dated), header=has_header, sample_size=ALL_ROWS)


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


def first_line(error):
    return str(error).strip().splitlines()[0]


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


main()
