"""Runs a plain transformers and PEFT training loop over a job's batches, as the baseline for bench/tune.ts."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, get_cosine_schedule_with_warmup

from hearth_trainers.job import read_job
from hearth_trainers.llm.dataset import load_dataset
from hearth_trainers.llm.model import load_tokenizer, max_positions
from hearth_trainers.llm.settings import read_settings
from hearth_trainers.llm.tokens import NextToken


def main(job_file: Path) -> None:
    """Trains and prints the time; nothing is saved."""
    job = read_job(job_file)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(job.threads)
    settings = read_settings(job, device.type)
    assert job.base_dir
    tokenizer = load_tokenizer(job.base_dir)
    data = load_dataset(job, settings, tokenizer, max_positions(job.base_dir))
    quantized = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    model = AutoModelForCausalLM.from_pretrained(
        job.base_dir,
        dtype=torch.bfloat16,
        device_map={"": device},
        quantization_config=quantized if settings.adapter == "qlora" else None,
    )
    if settings.adapter == "qlora":
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    lora = LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules="all-linear",
    )
    model = get_peft_model(model, lora)
    learning = NextToken(data, settings, model=model, pad_id=tokenizer.pad_token_id, device=device, world=1)
    plan = learning.plan
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=settings.learning_rate, weight_decay=0.0)
    warm_up = int(plan.total_steps * settings.warmup_ratio)
    scheduler = get_cosine_schedule_with_warmup(optimizer, warm_up, plan.total_steps)
    model.train()
    tokens, started, worked = 0, time.monotonic(), time.process_time()
    for step in range(plan.total_steps):
        batches, _ = learning.step(step, rank=0)
        for batch in batches:
            inputs = {"input_ids": batch.ids, "attention_mask": batch.mask, "labels": batch.labels}
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type != "cpu"):
                loss = model(**{name: one.to(device) for name, one in inputs.items()}).loss
            (loss / len(batches)).backward()
            tokens += int(batch.mask.sum())
        torch.nn.utils.clip_grad_norm_(trained, settings.max_grad_norm)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
    if device.type == "cuda":
        torch.cuda.synchronize()
    took, worked = time.monotonic() - started, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated() >> 20
    print("\n" + json.dumps({"tokens": tokens, "seconds": took, "cpu_seconds": worked, "peak_mb": peak}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
