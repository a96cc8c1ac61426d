"""Runs a fine-tuning job for a causal language model from start to finish."""

from __future__ import annotations

import gc
import shutil
import time
from typing import Any

import torch
from transformers.utils import logging

from ..job import Job
from ..loop import StopSignal
from ..protocol import log, report_result
from .chat_schema import CHAT
from .dataset import load_dataset
from .device import own_device, peak_memory_mb
from .kernels import load_with_kernels
from .model import base_folder, load_tokenizer, max_positions
from .outputs import report_files, write_adapter, write_merged
from .process_group import ProcessGroup
from .settings import read_settings
from .tokens import NextToken
from .training import FineTuning


def train_job(job: Job, stop: StopSignal) -> None:
    """Trains, or resumes training, and writes `adapter/` and `model/`."""
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    torch.set_num_threads(job.threads)
    device = own_device(job.gpus)
    settings = read_settings(job, device.type)
    base = base_folder(job)
    tokenizer = load_tokenizer(base)
    positions = max_positions(base)
    data = load_dataset(job, settings, tokenizer, positions)
    left_out = data.left_out
    group = ProcessGroup(device)
    model, uses_liger = load_with_kernels(base, settings, device, sample=data.learn[0].ids, checkpoint=job.resume_from)
    objective = NextToken(
        data,
        settings,
        model=model,
        pad_id=tokenizer.pad_token_id,
        max_positions=positions,
        device=device,
        world=group.world_size,
        uses_liger=uses_liger,
    )
    tuning = FineTuning(
        job,
        settings,
        model=model,
        objective=objective,
        stop=stop,
        device=device,
        group=group,
        uses_liger=uses_liger,
    )
    started, worked = time.monotonic(), time.process_time()
    history = tuning.run()
    # A checkpoint preserves the training progress before the result is assembled, which needs additional
    # memory.
    tuning.save()
    group.shutdown()
    stop.at_once = True
    took, worked = time.monotonic() - started, time.process_time() - worked
    log(
        f"Trained on {tuning.tokens_seen:,} tokens in {took:.1f} s ({tuning.tokens_seen / max(took, 1e-9):,.0f} "
        f"tokens/s), {worked:.2f} s of processor time; peak memory {peak_memory_mb(device):,} MB."
    )
    if not group.is_main_process:
        return

    shutil.rmtree(job.output_dir, ignore_errors=True)
    if settings.adapter == "none":
        write_merged(job.output_dir, base, settings, model)
    else:
        write_adapter(model, job.output_dir, str(job.param("base_model")), job.base_revision)
        tokenizer.save_pretrained(job.output_dir / "adapter")
        del tuning, model
        gc.collect()
        write_merged(job.output_dir, base, settings, None)
    tokenizer.save_pretrained(job.output_dir / "model")
    report_files(job.output_dir)
    report_result({**_metrics(history), "left_out_columns": left_out}, **CHAT)


def _metrics(history: list[dict[str, Any]]) -> dict[str, Any]:
    last = history[-1]
    metrics = {"train_loss": last["train_loss"], "epochs": history}
    return metrics | {name: value for name, value in last.items() if name.startswith("eval_")}
