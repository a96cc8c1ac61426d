from __future__ import annotations

from typing import Any

import pytest

import data_urls
from answers import InputProblem, problem_at
from data_urls import data_of
from generative.fields import choice_of, integer_of, number_of, optional_text_of, side_of, text_of
from misspelt_columns import MisspeltColumns
from specialist.fields import list_of, paths_of, texts_of


def test_data_of_decodes_a_data_url_with_parameters() -> None:
    assert data_of({"image": "data:image/png;charset=utf-8;base64,aGk="}, "image") == b"hi"


@pytest.mark.parametrize("value", [None, "", 3, "https://example.org/a.png", "data:text/plain,hi", "data:;base64,a"])
def test_data_of_names_the_field_that_is_no_file(value: Any) -> None:
    with pytest.raises(InputProblem) as problem:
        data_of({"image": value}, "image")
    assert problem.value.path == "/image"


def test_data_of_refuses_a_file_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_urls, "MAX_BYTES", 3)

    assert data_of({"file": "data:;base64,YWJj"}, "file") == b"abc"
    with pytest.raises(InputProblem, match="larger than"):
        data_of({"file": "data:;base64," + "YWJj" * 4}, "file")


def test_problem_at_escapes_the_column_in_its_pointer() -> None:
    problem = problem_at(2, "a/b~c", "must be a number")

    assert problem.path == "/instances/2/a~1b~0c"
    assert str(problem) == "instances[2].a/b~c must be a number"


def test_integer_of_accepts_whole_floats_and_refuses_booleans() -> None:
    assert integer_of({"steps": 4.0}, "steps", 1, 10) == 4
    assert integer_of({}, "steps", 1, 10) is None
    for value in (True, 4.5, 0, 11, "4"):
        with pytest.raises(InputProblem, match="steps must be an integer from 1 to 10"):
            integer_of({"steps": value}, "steps", 1, 10)


def test_number_of_refuses_what_is_not_finite() -> None:
    assert number_of({"scale": 1}, "scale", 0, 2) == 1.0
    for value in (float("nan"), float("inf"), 2.5, False, "1"):
        with pytest.raises(InputProblem):
            number_of({"scale": value}, "scale", 0, 2)


def test_text_of_needs_more_than_blanks() -> None:
    assert text_of({"prompt": " a "}, "prompt") == " a "
    assert optional_text_of({}, "prompt") is None
    for fields in ({}, {"prompt": "  "}, {"prompt": 3}, {"prompt": "x" * 10_001}):
        with pytest.raises(InputProblem):
            text_of(fields, "prompt")


def test_choice_of_defaults_to_the_first() -> None:
    assert choice_of({}, "format", ["png", "jpeg"]) == "png"
    with pytest.raises(InputProblem, match="png, jpeg"):
        choice_of({"format": "gif"}, "format", ["png", "jpeg"])


def test_side_of_must_be_a_multiple() -> None:
    assert side_of({"width": 64}, "width", 8) == 64
    with pytest.raises(InputProblem, match="multiple of 8"):
        side_of({"width": 65}, "width", 8)


def test_texts_of_accepts_one_text_or_many() -> None:
    assert texts_of({"input": "a"}, "input") == (["a"], True)
    assert texts_of({"input": ["a", "b"]}, "input") == (["a", "b"], False)
    assert paths_of("input", 1, is_one=True) == ["/input"]
    assert paths_of("input", 2, is_one=False) == ["/input/0", "/input/1"]


def test_list_of_names_the_element_that_is_no_text() -> None:
    with pytest.raises(InputProblem) as problem:
        list_of(["a", 1], "documents")
    assert problem.value.path == "/documents/1"


@pytest.mark.parametrize(
    ("name", "column"),
    [("Size", "Size m²"), ("size_m2", "Size m²"), ("custmer", "customer"), ("room_2", None), ("customer_id", None)],
)
def test_misspelt_columns_finds_the_column_that_a_name_means(name: str, column: str | None) -> None:
    columns = MisspeltColumns(["Size m²", "customer", "room_1"], ["target"])

    found = columns.first_in({name: 1}, {})

    assert found == (None if column is None else (name, column))


def test_misspelt_columns_accepts_other_columns_of_the_table() -> None:
    columns = MisspeltColumns(["customer"], ["custmer"])

    assert columns.first_in({"custmer": 1}, {}) is None
    assert columns.are_named_in({"customer": None, "other": 1})
