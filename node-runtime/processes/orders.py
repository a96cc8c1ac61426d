"""The launcher's JSON orders, as confinement.ts and sandbox.ts write them.

Only the type checker imports this module: loading `typing` takes longer than the launcher runs.
"""

from __future__ import annotations

from typing import TypedDict, final


class ConfinementLimits(TypedDict, total=False):
    """The optional fields of a confinement. Sizes are in MB; `folder` and `cwd` are absolute paths."""

    folder: str
    cwd: str
    data_mb: int
    file_mb: int
    gpu: bool
    oom_score: int
    require: dict[str, str]


@final
class Confinement(ConfinementLimits):
    """The measures that confine a command (confinement.py). Paths are absolute; `hidden` may be empty."""

    reads: list[str]
    writes: list[str]
    network: str
    hidden: str


class Sandbox(TypedDict):
    """A command's own root (sandbox.py). Sizes are in MB; CPU time is in seconds per process.

    `mounts` are pairs of a path on the machine and a path in the sandbox; `groups` are folders of control
    groups.
    """

    root: str
    mounts: list[tuple[str, str]]
    env: dict[str, str]
    data_mb: int
    temporary_mb: int
    cpus: int
    first_cpu: int
    processes: int
    cpu_s: int
    nice: int
    groups: list[str]


@final
class SandboxOrder(TypedDict):
    """The order for a command with its own root."""

    sandbox: Sandbox
