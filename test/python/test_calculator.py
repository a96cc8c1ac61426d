from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "catalog" / "tools" / "calculator" / "main.py"
SPEC = importlib.util.spec_from_file_location("calculator", PROGRAM)
assert SPEC is not None
assert SPEC.loader is not None
calculator: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(calculator)


@pytest.mark.parametrize(
    ("expression", "result"),
    [("2 + 3 * 4", 14), ("-2^2", -4), ("2^0.5 * sqrt(2)", 2.0000000000000004), ("factorial(20)", 2432902008176640000)],
)
def test_compute_follows_the_usual_rules(expression: str, result: float) -> None:
    assert calculator.compute(expression) == pytest.approx(result)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1 / 0", "divides by zero"),
        ("10^10^10", "more than 100000 bits"),
        ("(-1)^0.5", "not a real number"),
        ("factorial(5001)", "from 0 to 5000"),
        ("__import__('os')", "is not a function"),
        ("x + 1", "constants are pi"),
        ("True", "something other than arithmetic"),
        ("1 +", "syntax error"),
        ("(" * 500 + "1", "nested too deeply|syntax error"),
    ],
)
def test_compute_says_why_it_refuses(expression: str, reason: str) -> None:
    with pytest.raises(calculator.Refused, match=reason):
        calculator.compute(expression)
