"""The parts that all tabular models share: labels with their probabilities,
and errors about the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


class InputProblem(ValueError):
    """The request is invalid; the message names the location, and `path` is its JSON pointer."""

    def __init__(self, text: str, path: str) -> None:
        super().__init__(text)
        self.path = path


def problem_at(index: int, column: str, text: str) -> InputProblem:
    """Returns an `InputProblem` for one column of one instance."""
    pointer = column.replace("~", "~0").replace("/", "~1")
    return InputProblem(f"instances[{index}].{column} {text}", f"/instances/{index}/{pointer}")


class Labels:
    """Turns rows of probabilities into predictions."""

    def __init__(self, classes: Sequence[Any]) -> None:
        # Imported only for classifiers, because the import takes longer than reading a typical model.
        from hearth_trainers.schemas import label_name

        self._classes = list(classes)
        self._names = [label_name(label) for label in classes]

    def present(self, probabilities: np.ndarray) -> list[Any]:
        """Returns `{label, probabilities}` for each row."""
        best = probabilities.argmax(axis=1)
        return [
            {"label": self._classes[index], "probabilities": dict(zip(self._names, row, strict=False))}
            for index, row in zip(best.tolist(), probabilities.tolist(), strict=True)
        ]
