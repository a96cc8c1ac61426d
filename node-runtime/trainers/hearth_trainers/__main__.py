"""Entry point: `python -m hearth_trainers job.json`."""

from __future__ import annotations

import importlib
import os
import re
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from .errors import JobError, NodeFault, Stopped, full_disk, lost_gpu_fault, too_much_memory
from .job import Job, read_job
from .launch import is_launched, report_status, run_in_processes
from .loop import EpochLoop, StopSignal
from .protocol import emit, log, report_result

EXIT_UNTRAINABLE = 64
EXIT_STOPPED = 75


def main(arguments: list[str]) -> int:
    """Runs the job in the file; the exit status is described in ../README.md."""
    if len(arguments) != 1:
        print("usage: python -m hearth_trainers job.json", file=sys.stderr)
        return EXIT_UNTRAINABLE
    code = _train_and_report(Path(arguments[0]))
    report_status(code)
    if is_launched():
        if code == EXIT_UNTRAINABLE and os.environ["RANK"] != "0":
            # The first process hit the same error and reports it for all. Without this wait, torchrun would
            # stop that process before it had reported the error.
            time.sleep(10)
        # torch's threads can abort a normal exit of the interpreter, after which torchrun also stops the
        # other processes.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _train_and_report(path: Path) -> int:
    job: Job | None = None
    try:
        job = read_job(path)
        if job.processes > 1 and not is_launched():
            return run_in_processes(path, job.processes)
        _train(job, StopSignal())
        return 0
    except Stopped:
        log("Training was stopped.")
        return EXIT_STOPPED
    except JobError as error:
        if fault := full_disk(error):
            return _report_fault(fault)
        where = {name: value for name, value in (("column", error.column), ("row", error.row)) if value is not None}
        emit("error", code=error.code, message=str(error), **where)
        return EXIT_UNTRAINABLE
    except MemoryError:
        error = too_much_memory(job.memory_mb if job else None)
        emit("error", code=error.code, message=str(error))
        return EXIT_UNTRAINABLE
    except NodeFault as error:
        return _report_fault(error)
    except BrokenPipeError:
        # The reader has closed the pipe. The interpreter must not flush into it on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        traceback.print_exc()
        fault = full_disk(error, job.output_dir if job else None)
        if not fault and job and job.gpus > 0:
            fault = lost_gpu_fault(int(os.environ.get("LOCAL_RANK", "0")))
        if fault:
            return _report_fault(fault)
        emit("error", code="trainer_failed", message=f"{type(error).__name__}: {error}")
        return 1


def _report_fault(fault: NodeFault) -> int:
    emit("error", code=fault.code, message=str(fault))
    return 1


def _train(job: Job, stop: StopSignal) -> None:
    if not re.fullmatch(r"hearth_trainers(\.[a-z_]+)+", job.trainer):
        raise JobError(f"'{job.trainer}' is not a trainer.", code="bad_job")

    try:
        trainer = importlib.import_module(job.trainer)
    except ModuleNotFoundError as error:
        if not f"{job.trainer}.".startswith(f"{error.name}."):
            raise
        raise JobError(f"'{job.trainer}' is not a trainer.", code="bad_job") from error
    if hasattr(trainer, "train_job"):
        trainer.train_job(job, stop)
    else:
        _train_on_table(job, trainer, stop)


def _train_on_table(job: Job, trainer: ModuleType, stop: StopSignal) -> None:
    from .artifact import write_artifacts
    from .datasets.tables import read_table  # pyright: ignore[reportUnknownVariableType] (pyarrow has no types here)
    from .run import Run

    log(f"Reading the dataset ({job.format}).")
    codes: dict[str, Any] = {}
    table = cast(Any, read_table(job, codes if getattr(trainer, "LEARNS_CLASSES", False) else None))
    log(f"The dataset has {table.num_rows:,} rows and {table.num_columns} columns.")
    run = Run(job, table, EpochLoop(job, stop), codes)
    outcome = trainer.train(run)
    write_artifacts(job.output_dir, outcome)
    report_result(
        {**outcome.metrics, "left_out_columns": outcome.left_out, "epochs": run.loop.losses()},
        input_schema=outcome.input_schema,
        output_schema=outcome.output_schema,
        example_input=outcome.example_input,
        example_output=outcome.example_output,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
