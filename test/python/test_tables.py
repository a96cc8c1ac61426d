from __future__ import annotations

import io
import math
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from hearth_trainers.datasets.csv_layout import CsvLayout, UnclearLayout, layout_of, records_of
from hearth_trainers.datasets.left_out import all_but, other_columns
from hearth_trainers.schemas import class_schema, columns_schema, label_name, with_text_input
from hearth_trainers.tabular.features import CATEGORY, DATETIME, NUMBER, Feature, RowEncoder, ValueProblem, name_of
from hearth_trainers.times.centuries import first_year_of, whole_year
from hearth_trainers.times.clocks import are_clocks, is_clock
from hearth_trainers.times.moments import clear_time, in_words, is_time, month_of
from hearth_trainers.wording import counted
from hearth_trainers.words import has_new_words, words_of

DAY_US = 86_400_000_000


def layout(folder: Path, text: str) -> CsvLayout:
    path = folder / "table.csv"
    path.write_bytes(text.encode())
    return layout_of(path)


@pytest.mark.parametrize(
    ("text", "delimiter", "columns"),
    [
        ("a,b\n1,2\n", ",", 2),
        ("a;b\n1,5;2,5\n", ";", 2),
        ("a\tb, c\n1\t2\n", "\t", 2),
        ("\ufeffa|b\n1|2\n", "|", 2),
        ("name\nx\n", ",", 1),
        ('"a;b",c\n1,2\n', ",", 2),
    ],
)
def test_layout_of_finds_the_delimiter(tmp_path: Path, text: str, delimiter: str, columns: int) -> None:
    assert layout(tmp_path, text) == CsvLayout(delimiter, 0, columns)


def test_layout_of_reads_the_line_in_which_excel_names_the_delimiter(tmp_path: Path) -> None:
    assert layout(tmp_path, "sep=;\r\na;b\r\n1;2\r\n") == CsvLayout(";", 1, 2)


@pytest.mark.parametrize("text", ["a;b|c\n1;2|3\n", "Report 2024\na;b\n1;2\n3;4\n", "Sales,,\n1,2,3\n4,5,6\n"])
def test_layout_of_refuses_titles_and_ambiguous_headers(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnclearLayout, match=r"^line 1: "):
        layout(tmp_path, text)


def test_records_of_joins_the_lines_of_a_quoted_cell() -> None:
    text = 'a,b\n"1\n2",3\n\n4,5\n'

    records = list(records_of(io.StringIO(text, newline=""), CsvLayout(",", 0, 2)))

    assert [(one.line, one.text, one.delimiters) for one in records] == [
        (1, "a,b\n", 1),
        (2, '"1\n2",3\n', 1),
        (5, "4,5\n", 1),
    ]


@pytest.mark.parametrize(("text", "fault"), [('a,b\n"1,2\n', "never closed"), ('a,b\n"1"x,2\n', "after the closing")])
def test_records_of_reports_stray_quotes(text: str, fault: str) -> None:
    *_, last = records_of(io.StringIO(text, newline=""), CsvLayout(",", 0, 2))

    assert last.fault is not None
    assert fault in last.fault


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("20240131", datetime(2024, 1, 31)),
        ("20240131T235900Z", datetime(2024, 1, 31, 23, 59)),
        ("5 Jan 2024", datetime(2024, 1, 5)),
        ("Friday, January 5th, 2024", datetime(2024, 1, 5)),
        ("Jan 5, 2024 3:04 pm", datetime(2024, 1, 5, 15, 4)),
        ("2024-Q3", datetime(2024, 7, 1)),
        ("2024-W01", datetime(2024, 1, 1)),
        ("5 Jan 2024 12:00:00.5 +02:00", datetime(2024, 1, 5, 10, 0, 0, 500_000)),
        ("31 Feb 2024", None),
        ("Market 24", None),
        ("03/04/2024", None),
    ],
)
def test_clear_time_reads_notations_with_one_meaning(text: str, moment: datetime | None) -> None:
    expected = None if moment is None else int(moment.replace(tzinfo=timezone.utc).timestamp() * 1_000_000)

    assert clear_time(text) == expected


def test_is_time_accepts_dates_whose_order_is_open_and_no_clocks() -> None:
    assert is_time("03/04/2024")
    assert not is_time("18.30.21")
    assert not is_time("1.5")


def test_month_of_reads_abbreviations_of_several_languages() -> None:
    assert [month_of(name) for name in ("Sept", "juillet", "MAYO", "Decoder")] == [9, None, 5, None]


def test_in_words_leaves_midnight_out() -> None:
    assert in_words(DAY_US) == "1970-01-02"
    assert in_words(DAY_US + 1_000_000) == "1970-01-02 00:00:01"


def test_is_clock_tells_times_of_the_day_from_dates() -> None:
    assert [is_clock(text) for text in ("7:05", "24:00", "11h30", "18.45.59", "18.05.21", "25:00")] == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]
    assert are_clocks(["18.05.21", "18:30"])
    assert not are_clocks(["18.05.21"])


def test_first_year_of_splits_no_series_between_two_centuries() -> None:
    assert first_year_of(["1999"]) == 1969
    assert [whole_year(year, first_year_of(["65", "66", "70"])) for year in (65, 70)] == [1965, 1970]
    assert [whole_year(year, first_year_of(["98", "99", "00", "01"])) for year in (98, 1)] == [1998, 2001]


FEATURES = [
    Feature("age", NUMBER, True),
    Feature("town", CATEGORY, False, ("Café", "Rome")),
    Feature("at", DATETIME, False),
]


def encode(row: dict[str, Any]) -> list[float]:
    encoder = RowEncoder(FEATURES)

    class Vector(list[float]):
        def __setitem__(self, at: Any, value: Any) -> None:
            if isinstance(at, slice) and isinstance(value, float):
                value = [value] * len(range(*at.indices(len(self))))
            super().__setitem__(at, value)

    out: Any = Vector([0.0] * encoder.width)
    encoder.encode(row, out)
    return out


def test_row_encoder_encodes_a_row() -> None:
    assert encode({"age": 3, "town": "Rome", "at": "1970-01-02T06:00:00Z"}) == [3.0, 1.0, 1.25, 1.0, 4.0, 6.0]


def test_row_encoder_ignores_blanks_and_the_encoding_of_accents() -> None:
    assert encode({"age": 1, "town": " Cafe\u0301 "})[1] == 0.0


def test_row_encoder_encodes_unknown_and_absent_values_as_missing() -> None:
    encoded = encode({"age": 1, "town": "Oslo"})

    assert all(map(math.isnan, encoded[1:]))


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({}, "is missing"),
        ({"age": None}, "must not be null"),
        ({"age": True}, "must be a number, not a boolean"),
        ({"age": 1, "town": 2}, "must be a string, not a number"),
    ],
)
def test_row_encoder_says_what_a_value_must_be(row: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueProblem, match=text):
        encode(row)


def test_features_survive_their_manifest() -> None:
    assert [Feature.from_json(feature.as_json()) for feature in FEATURES] == FEATURES
    assert name_of([]) == "a list"


def test_columns_schema_requires_the_columns_without_missing_values() -> None:
    item = columns_schema(FEATURES)["properties"]["instances"]["items"]

    assert item["required"] == ["age"]
    assert item["x-order"] == ["age", "town", "at"]
    assert item["properties"]["town"]["type"] == ["string", "null"]
    assert "Rome" in item["properties"]["town"]["description"]


def test_columns_schema_drops_seen_values_of_a_schema_that_is_too_long() -> None:
    many = [Feature(f"c{number}", CATEGORY, False, ("x" * 80,) * 20) for number in range(200)]

    schema = columns_schema(many)

    assert "xxx" not in str(schema)


def test_class_schema_names_booleans_as_json_does() -> None:
    assert label_name(True) == "true"
    assert class_schema([False, True])["properties"]["probabilities"]["required"] == ["false", "true"]
    assert "text" in with_text_input({"properties": {"instances": {}}})["properties"]


def test_words_of_yields_words_and_runs() -> None:
    assert list(words_of("Don't stop", 2)) == ["don", "t", "stop", "don t", "t stop"]
    assert list(words_of("東京 €5", 1)) == ["東", "京", "€", "5"]
    assert list(words_of("東京 €5", 1, version=1)) == ["東京", "5"]


def test_has_new_words_finds_texts_that_both_versions_split_differently() -> None:
    assert not has_new_words("plain text")
    assert has_new_words("東京")
    assert has_new_words("cafe\u0301")


def test_all_but_and_other_columns_name_what_a_model_does_not_use() -> None:
    assert [one.column for one in all_but(["a", "b"], ["a"], "why")] == ["b"]
    assert other_columns(["a", "b", "y", "x" * 201], "y", ["a"]) == ["b"]
    assert [counted(count, "row") for count in (1, 1200)] == ["1 row", "1,200 rows"]
