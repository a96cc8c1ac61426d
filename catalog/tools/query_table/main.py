import csv
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb

# Python in isolated mode does not look for modules next to the program.
sys.path.insert(0, str(Path(__file__).parent))
from csv_layout import MISSING, MISSING_AMONG_VALUES, UnclearLayout, has_fields, layout_of, records_of

FILE = "/hearth/input/file_url"
# Relative to the working directory, which is the folder for temporary files.
ROWS = "rows.csv"
MAX_ROWS = 1_000
# Types inferred from only some rows would round or drop later values.
ALL_ROWS = -1
ENDINGS = {"\n": "LF", "\r\n": "CRLF", "\r": "CR"}
GUESSED_TYPES = ("DATE", "TIMESTAMP")
MARKS = MISSING + MISSING_AMONG_VALUES
ANY_MARK = "|".join(map(re.escape, MARKS))
# DuckDB detects dates written with dots (such as 2021.04.03), but cannot parse them.
YEAR_FIRST = r"\d{4}[-/].*"
BOOLEANS = "(?i:true|false)"
# A dot in these is a decimal point or a thousands separator; after a leading zero, it is a decimal point.
OPEN_POINTS = r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)"
BLANKS = r"[\s\x{a0}\x{202f}]*"
# In a column of numbers as people write them, every value matches NUMBERS and at least one contains a match
# for NOTATIONS. Codes such as 02134 and telephone numbers never contain one.
NUMBERS = (
    rf"[+-]?{BLANKS}[€$£¥₹]?{BLANKS}[+-]?(\d+|\d{{1,3}}([.,'’\s\x{{a0}}\x{{202f}}]\d{{3}})+|)([.,]\d*)?([eE][+-]?\d+)?"
    rf"{BLANKS}[€$£¥₹%]?{BLANKS}|[+-]?(?i:inf|infinity)"
)
NOTATIONS = (
    r"\d[\s\x{a0}\x{202f}.,'’€$£¥₹%]|[\s\x{a0}\x{202f}.,€$£¥₹]\d|^\s*[+]\d{1,7}\s*$|\d[eE][+-]?\d"
    r"|^\s*[+-]?(?i:inf|infinity)\s*$"
)
SYMBOL = rf"{BLANKS}[€$£¥₹%]?{BLANKS}"
DECIMAL_COMMAS = rf"[+-]?{SYMBOL}[+-]?(\d+|\d{{1,3}}(\.\d{{3}})+)(,(\d{{1,2}}|\d{{4,}}))?{SYMBOL}"
# Matches a guessed type within a type's name, but not a field with that name.
GUESSED = re.compile(r"(?:^|(?<=\s))(DATE|TIMESTAMP)(?=[,)\[]|$)")


class Refused(Exception):
    """The query cannot be answered; the message starts with the name of the input field."""


def kind_of():
    """Detects the format from the file's first bytes, because its URL may not show it."""
    with open(FILE, "rb") as file:
        start = file.read(4096)
    if start.startswith(b"PAR1"):
        return "parquet"
    if not start.strip():
        raise Refused("file_url: the file is empty")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Refused("file_url: line 1: not UTF-8 (it looks like UTF-16)")
    if b"\0" in start:
        raise Refused("file_url: the file is not a CSV, JSON or Parquet file")
    return "json" if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else "csv"


def open_table(notes):
    settings = {"temp_directory": "", "memory_limit": "300MB", "threads": "1", "autoload_known_extensions": "false"}
    connection = duckdb.connect(":memory:", config={**settings, "autoinstall_known_extensions": "false"})
    kind = kind_of()
    try:
        READERS[kind](connection, notes).create("data")
    except duckdb.Error as error:
        fault = fault_of_csv() if kind == "csv" else None
        raise Refused(f"file_url: {fault or f'the {kind} file cannot be read: {text_of(error)}'}") from error
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def read_csv(connection, notes):
    """Reads a file as a dataset upload does: the header decides the layout, and no row is treated as a title or a
    comment. Ambiguous cells remain text.
    """
    try:
        layout = layout_of(Path(FILE))
    except UnclearLayout as error:
        raise Refused(f"file_url: {error}") from error
    names, has_copy = header_of(layout)
    options = (
        f"'{ROWS if has_copy else FILE}', delim = '{layout.delimiter}', quote = '\"', escape = '\"', comment = '', "
        f"header = true, skip = {0 if has_copy else layout.skipped_lines}, strict_mode = true, null_padding = false"
    )

    def sniff(marks):
        # `read` reports faulty rows and ignores none.
        guess = (
            f"sample_size = {ALL_ROWS}, ignore_errors = true, names = {sql_list(names)}, nullstr = {sql_list(marks)}"
        )
        [(columns,)] = connection.execute(f"select Columns from sniff_csv({options}, {guess})").fetchall()
        # DuckDB does not compare the header with the rows.
        if len(columns) != layout.columns:
            raise Refused(f"file_url: {fault_of_csv() or 'the header cannot be read'}")
        return {column["name"]: column["type"] for column in columns}

    def read(types):
        shown = ", ".join(f"{literal(name)}: '{kind}'" for name, kind in types.items())
        return connection.sql(f"select * from read_csv({options}, auto_detect = false, columns = {{{shown}}})")

    unmarked, types = sniff([""]), sniff(MARKS)
    texts = read(dict.fromkeys(types, "VARCHAR"))
    spaced = spaced_columns(texts, texts_of(types))
    if marks := spaced_marks(texts, spaced):
        types = sniff(MARKS + marks)
    note_values_as_names(connection, types, notes)
    unsure = sure_types(texts, types, layout.delimiter, notes)
    spaced += spaced_columns(texts, [name for name, kind in unsure.items() if kind == "VARCHAR"])
    types |= unsure
    marked = {name: kind for name, kind in types.items() if kind not in ("VARCHAR", unmarked[name])}
    if marked:
        notes.append(f"strings such as NA or - count as missing values in {', '.join(map(quoted, list(marked)[:5]))}")
    table = read({**types, **dict.fromkeys(marked, "VARCHAR")})
    own = {name: f"nullif(trim({quoted(name)}), '')" for name in spaced if types[name] == "VARCHAR"}
    # A cell that doesn't fit the type is a missing value: null. NaN becomes null too, because DuckDB treats it as
    # greater than every number.
    own |= {name: f"try_cast({quoted(name)} as {kind})" for name, kind in marked.items()}
    doubles = [name for name, kind in types.items() if kind == "DOUBLE"]
    own |= {name: f"nullif({own.get(name, quoted(name))}, 'nan'::double)" for name in doubles}
    return project(table, own)


def texts_of(types):
    return [name for name, kind in types.items() if kind == "VARCHAR"]


def spaced_marks(texts, names):
    """Returns the missing-value strings with spaces around them, spaces included, because DuckDB compares
    whole cells.
    """
    if not names:
        return []
    cells = texts.project(f"unnest([{', '.join(map(quoted, names))}]) as cell")
    found = cells.filter("cell like '% ' or cell like ' %'").filter(f"list_contains({sql_list(MARKS)}, trim(cell))")
    return [cell for (cell,) in found.distinct().fetchall()]


def project(table, expressions):
    """Returns a table in which the given expressions replace their columns."""
    if not expressions:
        return table
    return table.project(
        ", ".join(
            f"{expressions[name]} as {quoted(name)}" if name in expressions else quoted(name) for name in table.columns
        )
    )


def header_of(layout):
    """Returns the names of the columns, and whether the rows were copied to a separate file: DuckDB loses rows after a
    line break in the header, and after a byte order mark if the first line is quoted.
    """
    with open(FILE, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        records = records_of(file, layout)
        first = next(records, None)
        header = first.text.rstrip("\r\n") if first else ""
        if not first or first.line > 1 + layout.skipped_lines or not header.strip():
            raise Refused(f"file_url: line {1 + layout.skipped_lines}: blank where the names of the columns should be")
        if fault := first.fault if is_utf8(header) else "not valid UTF-8":
            raise Refused(f"file_url: line {first.line}: {fault}")
        written = next(csv.reader(io.StringIO(header, newline=""), delimiter=layout.delimiter))
        with Path(FILE).open("rb") as start:
            has_mark = start.read(4) == b'\xef\xbb\xbf"'
        is_odd = (
            "\n" in header or "\r" in header or (has_mark and (layout.skipped_lines or layout.delimiter in written[0]))
        )
        if is_odd:
            try:
                with open(ROWS, "w", encoding="utf-8", errors="surrogateescape", newline="") as rows:
                    # DuckDB expects the first line's line break and number of columns in all rows.
                    rows.write(layout.delimiter.join(f"c{index}" for index in range(layout.columns)) + "\n")
                    rows.writelines(record.text.rstrip("\r\n") + "\n" for record in records)
            except OSError as error:
                raise Refused("file_url: line 1: remove line breaks from the names, and the byte order mark") from error
    # SQL names are case-insensitive.
    return distinct([name.strip(" ") or f"column{index}" for index, name in enumerate(written)], str.casefold), is_odd


def note_values_as_names(connection, types, notes):
    """Adds a note if all names in the header would be valid values of their columns. Ascending whole numbers, such as
    years, count as names.
    """
    others = {name: kind for name, kind in types.items() if kind != "VARCHAR"}
    whole = [int(name) for name in others if re.fullmatch(r"\d{1,9}", name)]
    if not others or (1 < len(whole) == len(others) and whole == sorted(whole)):
        return
    casts = ", ".join(f"try_cast({literal(name)} as {kind}) is not null" for name, kind in others.items())
    [found] = connection.execute(f"select {casts}").fetchall()
    if all(found):
        notes.append("the first line is read as the column names; if it is a row, put a line of names before it")


def spaced_columns(texts, names):
    """Returns the columns whose text begins or ends with spaces: padding, or a space after each delimiter."""
    found = aggregates(texts, names, "bool_or(regexp_matches({0}, '^ | $'))")
    return [name for name, is_spaced in found.items() if is_spaced]


def sure_types(texts, types, delimiter, notes):
    """Returns the types of columns that DuckDB only guesses. It may read 03/04/2021 as March or April depending on
    other rows, so dates must start with the year. Values such as `T` and `no` remain text, and so do numbers
    such as 1.234 if their dots may be thousands separators.
    """
    dated = {name: kind for name, kind in types.items() if kind in GUESSED_TYPES}
    found = {**kinds_of(texts, dated), **kinds_of(texts, {n: k for n, k in types.items() if k == "BOOLEAN"}, BOOLEANS)}
    fractional = [name for name, kind in types.items() if kind == "DOUBLE"]
    points = fitting(texts, fractional, OPEN_POINTS, "[.]")
    unclear = [name for name in fractional if points[name] is True]
    if written := [
        name for name, are_numbers in fitting(texts, texts_of(types), NUMBERS, NOTATIONS).items() if are_numbers
    ]:
        shown = ", ".join(map(quoted, written[:5]))
        notes.append(f"numbers written as 9,5 or $1 200 are text, and compared as such: {shown}")
    has_decimal_commas = bool(unclear) and any(fitting(texts, written, DECIMAL_COMMAS, ",").values())
    has_decimal_points = any(points[name] is False for name in fractional)
    if not unclear or (has_decimal_points and not has_decimal_commas and delimiter != ";"):
        return found
    shown = ", ".join(map(quoted, unclear[:5]))
    if not has_decimal_commas and (has_decimal_points or delimiter != ";"):
        notes.append(f"dots in {shown} are read as decimal points, although they may be thousands separators")
        return found
    first = quoted(unclear[0])
    notes.append(
        f"dots in {shown} may be thousands separators, so these columns are text: "
        f"cast replace({first}, '.', '') or {first} to double"
    )
    return {**found, **dict.fromkeys(unclear, "VARCHAR")}


def fitting(texts, names, pattern, mark):
    """Returns for each column whether all values except missing-value marks fit a pattern; None if no value contains
    `mark`.
    """
    has_mark = aggregates(texts, names, f"bool_or(regexp_matches({{0}}, {literal(mark)}))")
    fit = aggregates(texts, [name for name in names if has_mark[name]], f"bool_and({fits(pattern)})")
    return {name: fit.get(name) for name in names}


def fits(pattern):
    return f"regexp_full_match(trim({{0}}), {literal(f'{pattern}|{ANY_MARK}')})"


def aggregates(texts, names, expression):
    """Computes an expression for each column; `{0}` in it is the column's name. DuckDB plans 2,000 columns in 0.3 s if
    the name occurs once, and in 10 s if it occurs twice.
    """
    if not names:
        return {}
    shown = ", ".join(expression.replace("{0}", quoted(name)) for name in names)
    [found] = texts.query("texts", f"select {shown} from texts").fetchall()
    return dict(zip(names, found, strict=True))


def fault_of_csv():
    """Returns what is wrong with the first record that has invalid bytes, the wrong number of fields, faulty quotes or
    a different line ending; None if there is no such record.
    """
    layout = layout_of(Path(FILE))
    first = ""
    with open(FILE, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        for record in records_of(file, layout):
            if not is_utf8(record.text):
                return f"line {record.line}: not valid UTF-8"
            if record.fault:
                return f"line {record.line}: {record.fault}"
            bare = record.text.rstrip("\r\n")
            fields = record.delimiters + 1
            if not has_fields(bare, record.delimiters, layout.columns - 1, layout.delimiter):
                return f"line {record.line}: {fields} fields where the header has {layout.columns}"
            ending = record.text[len(bare) :] or first
            first = first or ending
            if ending != first:
                return f"line {record.line}: ends in {ENDINGS[ending]}, but the lines before it end in {ENDINGS[first]}"
    return None


def is_utf8(text):
    """Returns whether a string that was read with `surrogateescape` was valid UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_json(connection, _):
    """Reads dates as `read_csv` does; dates in lists and objects remain text."""
    guess = connection.read_json(FILE, sample_size=ALL_ROWS)
    types = dict(zip(guess.columns, map(str, guess.types), strict=True))
    kinds = {name: GUESSED.sub("VARCHAR", kind) for name, kind in types.items()}
    if kinds == types:
        return guess
    dated = {name: kind for name, kind in types.items() if kind in GUESSED_TYPES}
    return connection.read_json(FILE, columns={**kinds, **kinds_of(connection.read_json(FILE, columns=kinds), dated)})


def kinds_of(texts, types, pattern=YEAR_FIRST):
    """Returns the types of columns whose values all fit the pattern (by default, dates), and VARCHAR for others."""
    found = aggregates(texts, types, f"coalesce(bool_and({fits(pattern)}), true)")
    return {name: types[name] if is_sure else "VARCHAR" for name, is_sure in found.items()}


READERS = {"csv": read_csv, "json": read_json, "parquet": lambda connection, _: connection.read_parquet(FILE)}


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def sql_list(texts):
    return f"[{', '.join(map(literal, texts))}]"


def first_line(error):
    return str(error).strip().splitlines()[0]


def text_of(error):
    """Returns DuckDB's message without its advice about DuckDB options."""
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


def distinct(names, key: Callable[[str], str] = str):
    """Returns the names with _1, _2 and so on appended to repeated ones, because a row contains each name only once.
    Names with the same `key` count as equal.
    """
    own, given, taken = [], set(map(key, names)), set()
    for name in names:
        free, count = name, 0
        while key(free) in taken or (count and key(free) in given):
            count += 1
            free = f"{name}_{count}"
        own.append(free)
        taken.add(key(free))
    return own


def query(given):
    notes = []
    connection = open_table(notes)
    try:
        found = connection.execute(given["sql"])
        # SQL without a statement has no result at all.
        if found is None or found.description is None:
            raise Refused("sql: it is not a query that returns rows")
        rows = found.fetchmany(MAX_ROWS + 1)
    except duckdb.Error as error:
        raise Refused("; ".join([f"sql: {first_line(error)}", *notes])) from error
    names = distinct([column[0] for column in found.description])
    columns = [{"name": name, "type": str(column[1])} for name, column in zip(names, found.description, strict=True)]
    kept = [dict(zip(names, map(plain, row), strict=True)) for row in rows[:MAX_ROWS]]
    result = {"columns": columns, "rows": kept, "row_count": len(kept), "truncated": len(rows) > MAX_ROWS}
    return {**result, "note": "; ".join(notes)} if notes else result


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
