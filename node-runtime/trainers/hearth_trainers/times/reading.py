"""Reads times in the notations that people and programs write, and says how they were read."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..datasets.cells import without_marks
from ..errors import JobError
from .centuries import first_year_of, whole_year
from .clock_digits import clock_readings
from .moments import NAME_AND_NUMBER, NUMERIC, clear_match, clear_moment, clear_time, is_time, moment_of, month_of
from .month_names import DAYS_WITHOUT_YEAR, days_without_year, months_or_days
from .ranks import is_sorted, rank_alike

# For each unit since 1970, the smallest number that is a recent time (from 1973 on), and the unit in
# microseconds.
_EPOCH_UNITS = (
    (1e17, 0, "nanoseconds"),
    (1e14, 1, "microseconds"),
    (1e11, 1_000, "milliseconds"),
    (1e8, 1_000_000, "seconds"),
)
# The year 2100, as a multiple of a unit's smallest number. If a number is beyond it, the column has no unit
# since 1970.
_MAX_EPOCH = 41.024448


@dataclass(frozen=True)
class Times:
    """The time of each row. `unit` is the length of a value's unit in microseconds, or 0 for numbers without
    one. `how` says how the values were read, and `assumed` says why no other reading was chosen if several
    were possible. `is_number` marks numbers that were not read as dates, and `notations` lists the date
    notations that fit all of them, although nothing proves one. Times without `has_year` are days whose
    weekdays and distance across February 29 aren't known.
    """

    values: np.ndarray
    missing: np.ndarray
    unit: int
    how: str | None = None
    assumed: str | None = None
    is_number: bool = False
    notations: tuple[str, ...] = ()
    has_year: bool = True


class DoubtfulMonths(JobError):
    """Month names with two digits that may be years or days, if the order of the rows depends on it."""


def looks_like_times(column: pa.ChunkedArray) -> bool:
    """Returns whether nearly all of a column's first values are times in some notation."""
    texts = [text for text in without_marks(column.slice(0, 200)).to_pylist() if text]
    known = sum(is_time(text) for text in texts)
    return len(texts) > 1 and known >= 0.9 * len(texts)


def read_times(column: pa.ChunkedArray, name: str) -> Times:
    """Reads a column as times; raises an error that names the first value that is not one, or that is ambiguous."""
    kind = column.type
    missing = pc.is_null(column).to_numpy()
    if missing.all():
        raise _refused(f"Column '{name}' has no values, so it cannot order the rows.", name)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        micros = pc.cast(pc.cast(column, pa.timestamp("us", tz=getattr(kind, "tz", None)), safe=False), pa.int64())
        return Times(pc.fill_null(micros, 0).to_numpy(), missing, 1)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _of_numbers(column, missing, name)
    if pa.types.is_string(kind):
        return _of_texts(column, name)
    raise _refused(f"Column '{name}' cannot order the rows: its values are of type {kind}.", name)


def _of_numbers(column: pa.ChunkedArray, missing: np.ndarray, name: str) -> Times:
    values = pc.fill_null(pc.cast(column, pa.float64(), safe=False), 0).to_numpy()
    known = values[~missing]
    low, high = float(known.min()), float(known.max())
    if (known == np.floor(known)).all() and low >= 19_000_101 and high <= 21_001_231:
        days = [clear_time(f"{int(value)}") for value in values]
        if all(day is not None for day, is_missing in zip(days, missing, strict=True) if not is_missing):
            return Times(np.array([day or 0 for day in days], np.int64), missing, 1, "dates of eight digits")
    if dates := _of_digits(values, missing, name) or _of_months(values, missing):
        return dates
    readings = clock_readings(np.floor(known))
    if notation := _proven_notation(known, readings, name):
        return _of_clocks(readings, missing, notation)
    notations = tuple(readings)
    for least, unit, how in _EPOCH_UNITS:
        if low >= least and high < least * _MAX_EPOCH:
            return Times(values, missing, unit, f"{how} since 1970", is_number=True, notations=notations)
    return Times(values, missing, 0, is_number=True, notations=notations)


def _proven_notation(known: np.ndarray, readings: dict[str, np.ndarray], name: str) -> str | None:
    """Returns the date notation that is proven by the digits (as by years of four digits) or by the order of
    the file; None if the numbers may be something else.
    """
    if (known != np.floor(known)).any():
        return None
    with_century = [one for one in readings if "YYYY" in one]
    if with_century and rank_alike([readings[one] for one in with_century]):
        return with_century[0]
    in_order = [one for one in with_century or readings if is_sorted(readings[one])]
    is_clear = bool(in_order) and rank_alike([readings[one] for one in in_order])
    # If the numbers rise and the dates fall, or the reverse, nothing proves the dates.
    if is_clear and (with_century or not is_sorted(known) or rank_alike([known, readings[in_order[0]]])):
        return in_order[0]
    if with_century:
        raise JobError(
            f"The numbers in '{name}' may be dates written as {' or '.join(with_century)}, and the order of the rows "
            "depends on it. Write them as 2023-12-31T23:59.",
            code="ambiguous_time",
            column=name,
        )
    return None


def _of_clocks(readings: dict[str, np.ndarray], missing: np.ndarray, notation: str) -> Times:
    values = np.zeros(len(missing), np.int64)
    values[~missing] = readings[notation]
    date = notation.strip("Hms")
    order = {"D": ", day first", "M": ", month first"}.get(date[0], ", year first" if len(date) == 6 else "")
    return Times(values, missing, 1, f"{notation}{order}")


def _of_digits(values: np.ndarray, missing: np.ndarray, name: str) -> Times | None:
    """Reads numbers whose digits are dates with the year last, such as 31122023 or 311223. Single-digit days
    have lost their leading zero. Returns None for other numbers.
    """
    known = values[~missing]
    if (known != np.floor(known)).any() or known.min() < 10_100 or known.max() > 31_129_999:
        return None
    has_century = known.min() >= 1_000_000
    if has_century and not ((known % 10_000 >= 1_500) & (known % 10_000 <= 2_199)).all():
        return None
    # Six digits may mean something else, so only the order of the file proves that they are dates.
    if not has_century and (known.max() > 311_299 or is_sorted(known)):
        return None
    written = [
        None if skip else f"{int(value):0{8 if has_century else 6}d}"
        for value, skip in zip(values, missing, strict=True)
    ]
    texts = [one and f"{one[:2]}/{one[2:4]}/{one[4:]}" for one in written]
    try:
        times = _of_texts(pa.chunked_array([pa.array(texts, pa.string())]), name)
    except JobError as error:
        if error.code == "ambiguous_time" and has_century:
            raise
        return None
    return times if has_century or is_sorted(times.values[~missing]) else None


def _of_months(values: np.ndarray, missing: np.ndarray) -> Times | None:
    """Reads numbers that are months: 202112, 12.2021 (dotted, as in dates), or 1221 without a leading zero;
    None for other numbers.
    """
    known = values[~missing]
    if (known == np.floor(known)).all():
        years, months = np.divmod(known, 100)
        if _are_months(years, months):
            return _months(years, months, missing, "months of six digits")
        months, years = years, months
        # Up to four digits may mean something else, so only the order of the file proves that they are
        # months.
        if not ((months >= 1) & (months <= 12)).all() or is_sorted(known):
            return None
        first_year = first_year_of([f"{int(year):02d}" for year in years])
        times = _months(whole_year(years, first_year), months, missing, "months, month first")
        return times if is_sorted(times.values[~missing]) else None
    months = np.floor(known)
    years = np.round((known - months) * 10_000)
    if not np.allclose(months + years / 10_000, known, rtol=0, atol=1e-9) or not _are_months(years, months):
        return None
    times = _months(years, months, missing, "months, month first")
    return None if is_sorted(known) and not is_sorted(times.values[~missing]) else times


def _are_months(years: np.ndarray, months: np.ndarray) -> bool:
    return bool(((years >= 1_500) & (years <= 2_199) & (months >= 1) & (months <= 12)).all())


def _months(years: np.ndarray, months: np.ndarray, missing: np.ndarray, how: str) -> Times:
    values = np.zeros(len(missing), np.int64)
    since_1970 = ((years - 1970) * 12 + months - 1).astype(np.int64)
    values[~missing] = since_1970.astype("datetime64[M]").astype("datetime64[us]").astype(np.int64)
    return Times(values, missing, 1, how)


def _of_texts(column: pa.ChunkedArray, name: str) -> Times:
    texts = without_marks(column).to_pylist()
    missing = np.array([text is None for text in texts])
    clear, parts = _parsed(texts)
    orders = _possible_orders(parts) or {"": ""}
    readings = {order: _in_order(clear, parts, letters) for order, letters in orders.items()}
    failures = {
        order: [row for row, value in enumerate(found) if value is None and not missing[row]]
        for order, found in readings.items()
    }
    whole = [order for order in readings if not failures[order]]
    if not whole:
        order = min(failures, key=lambda one: len(failures[one]))
        failed, first = len(failures[order]), failures[order][0]
        read = f", {order}" if order else ""
        raise JobError(
            f"{failed:,} of {int((~missing).sum()):,} values in '{name}' cannot be read as times{read}; the first is "
            f"'{str(texts[first])[:60]}' in row {first + 1}. Write times as 2023-12-31 or 2023-12-31T23:59:00Z.",
            code="not_a_time",
            column=name,
            row=first + 1,
        )
    values = {order: np.array([value or 0 for value in readings[order]], np.int64) for order in whole}
    order, assumed = _chosen(values, missing, parts, name)
    times = Times(values[order], missing, 1, f"dates, {order}" if order else "times", assumed)
    _refuse_year_first(times, clear, name)
    return _with_months_or_days(times, clear, name)


def _refuse_year_first(times: Times, clear: list[re.Match[str] | None], name: str) -> None:
    """Rejects dates such as 23-Jan-05 if the rows of the file are in order with the year first, but not with
    the day first.
    """
    known = ~times.missing
    dates = [one for one in clear if one and one.groupdict().get("d") and len(one["d"]) == len(one["y"]) == 2]
    if len(dates) < known.sum() or is_sorted(times.values[known]):
        return
    first_year = first_year_of([one["d"] for one in dates])
    swapped = [moment_of(one["d"], month_of(one["name"]) or 0, int(one["y"]), one, first_year) for one in dates]
    if all(moment is not None for moment in swapped) and is_sorted(np.array(swapped)):
        message = f"The dates in '{name}' may have the day or the year first"
        raise _ambiguous(message, (int(np.flatnonzero(known)[0]), dates[0]), name)


def _with_months_or_days(times: Times, clear: list[re.Match[str] | None], name: str) -> Times:
    """Returns the times; the whole column decides how month names with two digits are read."""
    short = [(row, one) for row, one in enumerate(clear) if one and one.re is NAME_AND_NUMBER and len(one["y"]) == 2]
    if not short:
        return times
    days = days_without_year(
        np.array([month_of(one["name"]) for _, one in short]), np.array([int(one["y"]) for _, one in short])
    )
    if days is None:
        return times
    known = ~times.missing
    # Next to times that have a year, days without one have no order.
    found = months_or_days(times.values[known], days if len(short) == known.sum() else None)
    if found is None:
        message = f"The values in '{name}' may be months with a year or days without one"
        raise _ambiguous(message, short[0], name, write="2023-12 or 2023-12-31", error=DoubtfulMonths)
    values = np.zeros(len(known), np.int64)
    values[known], how, assumed = found
    return Times(values, times.missing, 1, how, assumed, has_year=how != DAYS_WITHOUT_YEAR)


Parts = dict[int, tuple[tuple[str, str, str], str, re.Match[str]]]


def _parsed(texts: list[str | None]) -> tuple[list[re.Match[str] | None], Parts]:
    """Returns the matches of unambiguous values, and the parts of the other values by row."""
    clear: list[re.Match[str] | None] = []
    parts: Parts = {}
    for row, text in enumerate(texts):
        found = NUMERIC.fullmatch(text) if text else None
        if found:
            parts[row] = ((found["a"], found["b"], found["c"]), found["mark"], found)
        clear.append(clear_match(text) if text and not found else None)
    return clear, parts


def _possible_orders(parts: Parts) -> dict[str, str]:
    """Returns the orders of day, month and year that the digits allow; the values may still fit none of them."""
    # Dates that begin with a four-digit year are unambiguous, so they decide nothing about the others.
    fields = [one for one, _, _ in parts.values() if len(one[0]) < 4]
    if not fields:
        return {"year first": "ymd"} if parts else {}
    last = {"day first": "dmy", "month first": "mdy"}
    if any(len(c) > 2 for _, _, c in fields):
        return last
    # A year has two digits in every row; a day or a month may have one. The number that changes least proves
    # nothing: in a monthly series, the day is the same throughout.
    orders = {**last} if all(len(c) == 2 for _, _, c in fields) else {}
    return {**orders, "year first": "ymd"} if all(len(a) == 2 for a, _, _ in fields) else orders


def _in_order(clear: list[re.Match[str] | None], parts: Parts, letters: str) -> list[int | None]:
    named: dict[int, dict[str, str]] = {}
    for row, (numbers, _, _) in parts.items():
        named[row] = dict(zip("ymd" if len(numbers[0]) == 4 else letters, numbers, strict=False))
    years = [one["y"] for one in named.values() if "y" in one]
    first_year = first_year_of([*years, *(match["y"] for match in clear if match)])
    found = [clear_moment(match, first_year) if match else None for match in clear]
    for row, one in named.items():
        if "y" in one:
            found[row] = moment_of(one["y"], int(one["m"]), int(one["d"]), parts[row][2], first_year)
    return found


def _chosen(values: dict[str, np.ndarray], missing: np.ndarray, parts: Parts, name: str) -> tuple[str, str | None]:
    order, *others = values
    if not others:
        return order, None
    known = {one: found[~missing] for one, found in values.items()}
    undecided = f"no value decides between day and month{' and year' if 'year first' in values else ''}"
    if rank_alike(list(known.values())):
        return order, f"{undecided}, but the order of the rows is the same either way"
    by_points = f"{undecided}, and dates with dots have the day first"
    has_points = all(mark == "." for _, mark, _ in parts.values()) and "day first" in values
    if has_points and all(max(len(numbers[0]), len(numbers[2])) == 4 for numbers, _, _ in parts.values()):
        return "day first", by_points
    in_file_order = [one for one, found in known.items() if is_sorted(found)]
    if in_file_order and rank_alike([known[one] for one in in_file_order]):
        return in_file_order[0], f"{undecided}, but only this reading puts the rows of the file in order"
    if has_points:
        return "day first", by_points
    row = next(row for row, (numbers, _, _) in parts.items() if len(numbers[0]) < 4)
    firsts = " or the ".join(one.removesuffix(" first") for one in values)
    raise _ambiguous(f"The dates in '{name}' may have the {firsts} first", (row, parts[row][2]), name)


def _ambiguous(
    message: str,
    example: tuple[int, re.Match[str]],
    name: str,
    *,
    write: str = "2023-12-31",
    error: type[JobError] = JobError,
) -> JobError:
    """Returns the error for times that may be read in several ways, with the row of an example, from 0."""
    row, text = example
    return error(
        f"{message}, and the order of the rows depends on it (row {row + 1} is '{text.group(0)[:40]}'). Write them as "
        f"{write}.",
        code="ambiguous_time",
        column=name,
        row=row + 1,
    )


def _refused(message: str, column: str) -> JobError:
    return JobError(message, code="not_a_time", column=column)
