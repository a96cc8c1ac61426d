"""Wording that several trainers share in their messages."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Returns `1 row`, or `1,200 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
