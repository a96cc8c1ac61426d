"""Starts one process per accelerator with torchrun and reports the exit status of the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

_STATUS = "HEARTH_TRAINER_STATUS"


def run_in_processes(job_file: Path, count: int) -> int:
    """Runs the job in `count` processes; returns the exit status of the first one."""
    with tempfile.TemporaryDirectory() as folder:
        status = Path(folder, "status")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
        child = subprocess.Popen(
            [*command, "-m", "hearth_trainers", str(job_file)], env={**os.environ, _STATUS: str(status)}
        )
        # A signal to this process is meant for all of them.
        signal.signal(signal.SIGTERM, lambda number, _frame: child.send_signal(number))
        code = child.wait()
        return int(status.read_text()) if status.exists() else code or 1


def is_launched() -> bool:
    """Returns whether this process is one of several."""
    return _STATUS in os.environ


def report_status(code: int) -> None:
    """Passes the exit status of the first process to the launcher; torchrun itself reports the same status
    for every failure.
    """
    if is_launched() and os.environ.get("RANK") == "0":
        Path(os.environ[_STATUS]).write_text(str(code))
