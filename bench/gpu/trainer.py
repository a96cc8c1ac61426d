"""Trains on a job's rows with transformers' Trainer and PEFT, as the baseline for bench/gpu.ts: `python trainer.py JOB
[--liger]` prints a JSON object with `tokens`, `tokens_per_second` (after the first step) and `peak_mb`. Nothing is
saved.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

# A GPU that cannot be used is an error, not a reason to measure the CPU.
ON_GPU = os.environ.get("HEARTH_DEVICE") == "cuda"
OPTIMIZERS = {"adamw_8bit": "adamw_bnb_8bit", "adamw_torch": "adamw_torch"}


class Clock(TrainerCallback):
    """Measures the time after the first step, which loads kernels."""

    started = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.global_step == 1:
            self.started = now()


def now() -> float:
    """Returns the time at which all work on the GPU is done."""
    if ON_GPU:
        torch.cuda.synchronize()
    return time.monotonic()


def load(job: dict[str, Any]) -> Any:
    """Loads the model with its LoRA layers."""
    settings = job["hyperparameters"]
    is_quantized = settings["adapter"] == "qlora"
    quantized = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    model = AutoModelForCausalLM.from_pretrained(
        job["base_dir"],
        dtype=torch.bfloat16,
        device_map={"": "cuda" if ON_GPU else "cpu"},
        quantization_config=quantized if is_quantized else None,
    )
    model.config.use_cache = False
    if is_quantized:
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    lora = LoraConfig(
        task_type="CAUSAL_LM",
        r=settings["lora_r"],
        lora_alpha=settings["lora_alpha"],
        lora_dropout=settings["lora_dropout"],
        target_modules="all-linear",
    )
    return get_peft_model(model, lora)


def read_rows(job: dict[str, Any]) -> list[dict[str, list[int]]]:
    """Returns the rows of the job, truncated to the job's length. All rows are longer than that."""
    tokenizer = AutoTokenizer.from_pretrained(job["base_dir"])
    [path] = job["dataset"]["paths"]
    rows = [json.loads(line) for line in Path(path).read_text("utf8").splitlines()]
    length = job["hyperparameters"]["sequence_len"]
    ids = [tokenizer(row["instruction"] + row["output"])["input_ids"][:length] for row in rows]
    return [{"input_ids": row, "attention_mask": [1] * len(row), "labels": row} for row in ids]


def main() -> None:
    """Trains and prints the figures."""
    job = json.loads(Path(sys.argv[1]).read_text("utf8"))
    torch.set_num_threads(job["threads"])
    settings = job["hyperparameters"]
    clock = Clock()
    arguments = TrainingArguments(
        output_dir=job["output_dir"],
        max_steps=settings["max_steps"],
        per_device_train_batch_size=settings["micro_batch_size"],
        gradient_accumulation_steps=settings["gradient_accumulation_steps"],
        gradient_checkpointing=settings["gradient_checkpointing"],
        gradient_checkpointing_kwargs={"use_reentrant": False},
        learning_rate=settings["learning_rate"],
        lr_scheduler_type="cosine",
        max_grad_norm=settings["max_grad_norm"],
        optim=OPTIMIZERS[settings["optimizer"]],
        bf16=ON_GPU,
        use_cpu=not ON_GPU,
        use_liger_kernel="--liger" in sys.argv,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    Trainer(load(job), arguments, train_dataset=read_rows(job), callbacks=[clock]).train()
    took = now() - clock.started
    steps = settings["max_steps"]
    per_step = settings["micro_batch_size"] * settings["gradient_accumulation_steps"] * settings["sequence_len"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    if ON_GPU:
        peak = torch.cuda.max_memory_allocated() >> 20
    figures = {"tokens": steps * per_step, "tokens_per_second": (steps - 1) * per_step / took, "peak_mb": peak}
    print("\n" + json.dumps(figures))


if __name__ == "__main__":
    main()
