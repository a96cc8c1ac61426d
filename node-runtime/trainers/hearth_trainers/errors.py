"""What ends a training run, other than success."""

from __future__ import annotations


class JobError(Exception):
    """The job or its data cannot be trained on; trying again changes nothing."""

    def __init__(
        self, message: str, *, code: str = "bad_data", column: str | None = None, row: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.column = column
        self.row = row


class Stopped(Exception):
    """SIGTERM was answered: whatever is worth keeping is in a checkpoint."""


def too_much_memory(limit_mb: int | None, needed_mb: int | None = None) -> JobError:
    """The error for what does not fit into the memory that a run may have."""
    needed = f" at least {needed_mb:,} MB for its dataset alone" if needed_mb else " more memory"
    may = f": it may have {limit_mb:,} MB" if limit_mb else " than there is"
    return JobError(f"The run needs{needed}{may}.", code="memory_exceeded")


def no_such_column(name: str, columns: list[str], parameter: str) -> JobError:
    """The error for a column that a hyperparameter names and the dataset lacks."""
    listed = ", ".join(columns[:50]) + (", ..." if len(columns) > 50 else "")
    return JobError(
        f"{parameter} names a column that the dataset does not have: '{name}'. Its columns are: {listed}.",
        code="no_such_column",
        column=name,
    )
