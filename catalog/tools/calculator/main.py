from __future__ import annotations

import ast
import json
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

Number = int | float

# Results beyond this many bits are rejected before they are computed.
MAX_BITS = 100_000
MAX_FACTORIAL = 5_000
sys.set_int_max_str_digits(0)

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    # The type stubs don't fully annotate these two.
    ast.Div: operator.truediv,  # pyright: ignore[reportUnknownMemberType]
    ast.FloorDiv: operator.floordiv,  # pyright: ignore[reportUnknownMemberType]
    ast.Mod: operator.mod,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(math, name)
    for name in """sqrt exp log log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh
        degrees radians hypot floor ceil trunc gcd lcm isqrt cbrt""".split()
    if hasattr(math, name)
} | {"ln": math.log, "abs": abs, "min": min, "max": max, "round": round}


class Refused(Exception):
    """The expression cannot be computed; the message is for its author."""


def power(base: Number, exponent: Number) -> Number:
    """Returns the power; raises Refused if it has too many bits or isn't real."""
    if isinstance(base, int) and isinstance(exponent, int) and abs(base).bit_length() * abs(exponent) > MAX_BITS:
        raise Refused(f"the power has more than {MAX_BITS} bits")
    result: Number | complex = base**exponent
    if isinstance(result, complex):
        raise Refused("the power of a negative number is not a real number")
    return result


def product(left: Number, right: Number) -> Number:
    """Returns the product; raises Refused if it has too many bits."""
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MAX_BITS:
        raise Refused(f"the product has more than {MAX_BITS} bits")
    return left * right


def factorial(number: Number) -> int:
    """Returns the factorial; raises Refused if the number is fractional, negative or too large."""
    if not isinstance(number, int) or not 0 <= number <= MAX_FACTORIAL:
        raise Refused(f"factorial takes a whole number from 0 to {MAX_FACTORIAL}")
    return math.factorial(number)


def choose(number: Number, chosen: Number) -> int:
    """Returns the binomial coefficient; raises Refused if a number is fractional, negative or too large."""
    if (
        not (isinstance(number, int) and isinstance(chosen, int))
        or not 0 <= number <= MAX_FACTORIAL
        or not 0 <= chosen <= MAX_FACTORIAL
    ):
        raise Refused(f"comb takes two whole numbers from 0 to {MAX_FACTORIAL}")
    return math.comb(number, chosen)


OPERATORS[ast.Pow] = power
OPERATORS[ast.Mult] = product
FUNCTIONS.update({"factorial": factorial, "comb": choose, "pow": power})


def value(node: ast.AST) -> Number:
    """Returns the value of an expression tree; raises Refused for anything but arithmetic."""
    match node:
        case ast.Expression(body=body):
            return value(body)
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](value(left), value(right))
        case ast.UnaryOp(operand=operand, op=op) if type(op) in OPERATORS:
            return OPERATORS[type(op)](value(operand))
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.Name(id=name):
            raise Refused(f"unknown name {name}; the constants are {', '.join(CONSTANTS)}")
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*map(value, args))
        case ast.Call(func=ast.Name(id=name)):
            raise Refused(f"{name} is not a function; the functions are {', '.join(sorted(FUNCTIONS))}")
        case _:
            raise Refused(f"column {getattr(node, 'col_offset', 0) + 1} contains something other than arithmetic")


def compute(expression: str) -> Number:
    """Returns the value of an expression; raises Refused with a message for its author."""
    try:
        # `^` means power here, so it must bind as `**` does.
        return value(ast.parse(expression.strip().replace("^", "**"), mode="eval"))
    except SyntaxError as error:
        raise Refused(f"syntax error at column {error.offset or 1}") from error
    except ZeroDivisionError as error:
        raise Refused("it divides by zero") from error
    except OverflowError as error:
        raise Refused("a number in it is too large") from error
    except (RecursionError, MemoryError) as error:
        raise Refused("it is nested too deeply") from error
    except (ValueError, TypeError) as error:
        raise Refused(str(error)) from error


def main() -> None:
    """Reads the expression from the input file and prints the result; exits with 2 if it cannot be computed."""
    with open("/hearth/input/input.json", encoding="utf-8") as file:
        expression = json.load(file)["expression"]
    try:
        found = compute(expression)
        try:
            number = float(found)
        except OverflowError:
            raise Refused("the result is too large to return as a JSON number") from None
        if not math.isfinite(number):
            raise Refused("the result is not a finite number")
    except Refused as error:
        json.dump({"error": {"message": f"expression: {error}", "path": "/expression"}}, sys.stdout)
        sys.exit(2)
    is_exact = isinstance(found, int) and abs(found) < 2**53
    json.dump({"result": found if is_exact else number, "text": str(found)}, sys.stdout)


if __name__ == "__main__":
    main()
