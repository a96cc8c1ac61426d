"""The trainer protocol: JSON lines on standard output."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from typing import Any

import orjson


def emit(event: str, **fields: Any) -> None:
    """Writes one line. Values that are not finite become null. If there are several processes, only the first
    one writes.
    """
    if os.environ.get("RANK", "0") != "0":
        return
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = orjson.dumps(
        {"event": event, "timestamp": now, **fields}, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    )
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def log(message: str) -> None:
    """Logs a message for the owner of the run."""
    emit("log", level="info", message=message)


def warn(message: str) -> None:
    """Logs a warning that is not about the data, such as an unreadable checkpoint."""
    emit("log", level="warning", message=message)


# A run's metrics are shown in full, so they contain at most this many warnings; the log has all of them.
MAX_WARNINGS = 50
_MAX_WARNING_CHARS = 500
_data_warnings: list[dict[str, Any]] = []


def warn_about_data(
    message: str, *, column: str | None = None, count: int | None = None, row: int | None = None
) -> None:
    """Logs a warning about data that the model learns differently from how it was written, or not at all, and
    adds it to the run's metrics. `count` is the number of affected rows or values, and `row` is the first
    of them, from 1.
    """
    warn(message)
    where = {name: value for name, value in (("column", column), ("count", count), ("row", row)) if value is not None}
    if column is not None:
        where["column"] = column[:200]
    if len(_data_warnings) < MAX_WARNINGS:
        _data_warnings.append({"message": message[:_MAX_WARNING_CHARS], **where})


def data_warnings() -> list[dict[str, Any]]:
    """Returns the warnings about data so far."""
    return list(_data_warnings)


def report_result(metrics: dict[str, Any], **fields: Any) -> None:
    """Writes the `result` line, with the warnings about data among the metrics."""
    warnings = {"warnings": _data_warnings} if _data_warnings else {}
    emit("result", metrics={**metrics, **warnings}, **fields)
