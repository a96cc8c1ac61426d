"""The exceptions that end a training run."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from .lost_gpu import lost_gpu

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_WORDS = ("no space left on device", "disk quota exceeded", "os error 28")
_MIN_FREE_BYTES = 1 << 20


class JobError(Exception):
    """The job or its data can't be used for training; a retry would fail again."""

    def __init__(
        self, message: str, *, code: str = "bad_data", column: str | None = None, row: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.column = column
        self.row = row


class NodeFault(Exception):
    """This node cannot do what its job needs, but another node might."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class Stopped(Exception):
    """The run stopped after a SIGTERM; its progress is in a checkpoint."""


def full_disk(error: BaseException, folder: Path | None = None) -> NodeFault | None:
    """Returns a node fault if a full disk caused `error`, otherwise None.

    Libraries report a full disk by errno, in words, or (torch.save) not at all. For the last kind, pass
    the `folder` of the files: if its disk has no room for another MB, we assume that this is the cause.
    """
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        is_full = isinstance(found, OSError) and found.errno in _FULL
        if is_full or any(words in str(found).lower() for words in _FULL_WORDS):
            return _disk_fault()
        found = found.__cause__ or found.__context__
    if folder is not None and _free_bytes(folder) < _MIN_FREE_BYTES:
        return _disk_fault()
    return None


def lost_gpu_fault(device: int) -> NodeFault | None:
    """Returns a node fault if the process has lost its GPU, otherwise None. A failed kernel assertion is a
    fault in the data, such as an index beyond a table, and would recur on every node.
    """
    why = lost_gpu(device)
    if why is None or "device-side assert" in why:
        return None
    return NodeFault(
        f"This node's GPU failed during the run ({why}). The run continues automatically from its last checkpoint, "
        "here or on another node. Run `npx hearth doctor` to see what is wrong with the node.",
        code="no_cuda",
    )


def _disk_fault() -> NodeFault:
    return NodeFault(
        "The disk of this node is full, so the run could not write its files. The run continues automatically once "
        "there is room here or on another node.",
        code="disk_full",
    )


def _free_bytes(folder: Path) -> int:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return _MIN_FREE_BYTES
    return disk.f_bavail * disk.f_frsize


def too_much_memory(limit_mb: int | None, needed_mb: int | None = None) -> JobError:
    """Returns the error for data that exceeds the memory limit of the run."""
    needed = f" at least {needed_mb:,} MB for its dataset alone" if needed_mb else " more memory"
    may = f": its limit is {limit_mb:,} MB" if limit_mb else " than there is"
    return JobError(f"The run needs{needed}{may}.", code="memory_exceeded")


def no_such_column(name: str, columns: list[str], parameter: str) -> JobError:
    """Returns the error for a column that a hyperparameter names but the dataset lacks."""
    listed = ", ".join(columns[:50]) + (", ..." if len(columns) > 50 else "")
    return JobError(
        f"{parameter} names a column that the dataset does not have: '{name}'. Its columns are: {listed}.",
        code="no_such_column",
        column=name,
    )


def without_values(column: str, rows: int) -> JobError:
    """Returns the error for a target column that is empty in every row."""
    return JobError(
        f"Column '{column}' has no value in any of the {rows:,} rows, so there is nothing to predict; "
        "name another one as target_column.",
        code="no_values",
        column=column,
    )
