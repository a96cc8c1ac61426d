from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hearth_trainers.checkpoint import MAX_CHECKPOINTS, Checkpoint, read_checkpoint, write_checkpoint
from hearth_trainers.errors import JobError, full_disk, no_such_column, too_much_memory
from hearth_trainers.job import Job, read_job
from hearth_trainers.llm.settings import XPU_SEQUENCE_LEN, LoopSettings, Settings, read_settings


def job_file(folder: Path, **fields: Any) -> Path:
    (folder / "data.csv").write_text("a,b\n1,2\n")
    body = {
        "trainer": "regression",
        "dataset": {"format": "csv", "paths": [str(folder / "data.csv")]},
        "output_dir": "out",
        "checkpoint_dir": "checkpoints",
        **fields,
    }
    path = folder / "job.json"
    path.write_text(json.dumps(body))
    return path


def test_read_job_has_defaults(tmp_path: Path) -> None:
    job = read_job(job_file(tmp_path))

    assert (job.threads, job.processes, job.gpus, job.memory_mb, job.resume_from) == (1, 1, 0, None, None)


def test_read_job_trims_the_columns_of_csv_files(tmp_path: Path) -> None:
    given = {"target_column": " y ", "ignore_columns": [" a"], "note": " n "}

    assert read_job(job_file(tmp_path, hyperparameters=given)).hyperparameters == {
        "target_column": "y",
        "ignore_columns": ["a"],
        "note": " n ",
    }


def test_read_job_names_the_missing_member(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text('{"trainer": "x"}')

    with pytest.raises(JobError, match="lacks dataset") as problem:
        read_job(path)
    assert problem.value.code == "bad_job"


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_read_job_refuses_a_damaged_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "job.json"
    path.write_text(text)

    with pytest.raises(JobError, match="cannot be read"):
        read_job(path)


def test_digest_depends_on_data_and_settings_but_not_on_how_a_run_is_saved(tmp_path: Path) -> None:
    job = read_job(job_file(tmp_path, hyperparameters={"seed": 1, "save_steps": 5}))
    digest = job.digest()

    assert replace(job, hyperparameters={"seed": 1, "save_steps": 9}).digest() == digest
    assert replace(job, hyperparameters={"seed": 2, "save_steps": 5}).digest() != digest
    (tmp_path / "data.csv").write_text("a,b\n1,3\n")
    assert job.digest() != digest


def test_checkpoint_survives_a_round_trip_and_the_oldest_are_deleted(tmp_path: Path) -> None:
    paths = [
        write_checkpoint(tmp_path, Checkpoint("digest", epoch, [{"epoch": epoch}], {"model": b"x"}))
        for epoch in range(1, MAX_CHECKPOINTS + 2)
    ]

    assert read_checkpoint(paths[-1], "digest") == Checkpoint(
        "digest", MAX_CHECKPOINTS + 1, [{"epoch": MAX_CHECKPOINTS + 1}], {"model": b"x"}
    )
    assert len(list(tmp_path.iterdir())) == MAX_CHECKPOINTS


def test_read_checkpoint_ignores_other_jobs_and_damaged_files(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, Checkpoint("digest", 1, [], {}))

    assert read_checkpoint(path, "another") is None
    path.write_bytes(path.read_bytes()[:20])
    assert read_checkpoint(path, "digest") is None


def test_full_disk_is_found_by_number_by_words_and_in_causes() -> None:
    cause = RuntimeError("torch.save failed")
    cause.__cause__ = OSError(errno.ENOSPC, "x")

    assert full_disk(cause) is not None
    assert full_disk(RuntimeError("No space left on device")) is not None
    assert full_disk(RuntimeError("another")) is None


def test_errors_name_numbers_and_columns() -> None:
    assert "1,500 MB" in str(too_much_memory(1500))
    assert no_such_column("z", ["a", "b"], "target_column").column == "z"


def settings_job(**given: Any) -> Job:
    names = [*Settings.__dataclass_fields__, "sample_packing"]
    here = Path()
    values = {**dict.fromkeys(names, 1), "optimizer": "adamw_torch", "sample_packing": False, **given}
    return Job("j", "llm", "jsonl", (), values, here, here, None, 1, 5)


def test_read_settings_adapts_to_the_device() -> None:
    settings = read_settings(settings_job(flash_attention=True, sequence_len=9000, sample_packing=True), "xpu")

    assert settings.flash_attention == "on"
    assert settings.sequence_len == XPU_SEQUENCE_LEN
    assert settings.group_by_length is True


def test_read_settings_refuses_an_eight_bit_optimizer_without_cuda() -> None:
    job = settings_job(optimizer="adamw_8bit")

    assert read_settings(job, "cuda").optimizer == "adamw_8bit"
    with pytest.raises(JobError) as problem:
        read_settings(job, "cpu")
    assert problem.value.code == "needs_cuda"


def test_param_names_the_missing_hyperparameter() -> None:
    with pytest.raises(JobError, match="no hyperparameter color"):
        settings_job().param("color")


@pytest.mark.parametrize(("save_steps", "total", "every"), [("auto", 1000, 200), (0, 8000, 400), (50, 8000, 50)])
def test_save_every_is_a_twentieth_unless_requested(save_steps: int | str, total: int, every: int) -> None:
    names = LoopSettings.__dataclass_fields__
    given: Any = {**dict.fromkeys(names, 1), "save_steps": save_steps}

    assert LoopSettings(**given).save_every(total) == every
