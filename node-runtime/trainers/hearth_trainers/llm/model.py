"""Loads the base model and adds the layers to train."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
)

from ..errors import JobError
from ..job import Job
from ..protocol import log
from .render import FALLBACK_TEMPLATE
from .settings import Settings

# Models whose kernels read the weights of these layers directly, so that PEFT refuses to adapt them.
_STATE_SPACE = ("falcon_h1", "mamba", "mamba2", "falcon_mamba", "nemotron_h")
_UNADAPTABLE = ["out_proj", "conv1d"]
# GPT-2, GPT-J, CodeGen and CTRL use the second name, MPT and DBRX the third.
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len")


def base_folder(job: Job) -> Path:
    """Returns the Hugging Face folder of the base: as given, or the merged model in an earlier run's
    artifacts.
    """
    if job.base_dir is None:
        raise JobError("The job names no base model folder.", code="bad_job")
    for folder in (job.base_dir, job.base_dir / "model"):
        if (folder / "config.json").is_file():
            return folder
    raise JobError("The base model has no config.json.", code="bad_base")


def load_tokenizer(folder: Path) -> Any:
    """Loads the tokenizer, and adds a padding token and a chat template if they are missing."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError) as error:
        raise JobError(f"The tokenizer of the base model cannot be read: {error}", code="bad_base") from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.unk_token or tokenizer.eos_token
    if not tokenizer.chat_template:
        log("The tokenizer has no chat template: a plain one is used and saved with the model.")
        tokenizer.chat_template = FALLBACK_TEMPLATE
    tokenizer.padding_side = "right"
    return tokenizer


def max_positions(folder: Path) -> int:
    """Returns the model's maximum sequence length in tokens; a large number if the config does not state it."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for part in (config, config.get("text_config") or {}):
        for name in _POSITIONS:
            value = part.get(name)
            if isinstance(value, int) and value > 0:
                return value
    return 1 << 30


def load_model(folder: Path, settings: Settings, device: torch.device) -> Any:
    """Loads the model for training: in 4 bits or bf16 with LoRA layers, or fully in 32 bits."""
    attention = _attention(_model_class(folder), settings, device)
    options: dict[str, Any] = {"attn_implementation": attention, "device_map": {"": device}}
    if settings.adapter == "qlora":
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
    model = load_base(folder, torch.float32 if settings.adapter == "none" else torch.bfloat16, **options)
    model.config.use_cache = False
    if settings.adapter == "qlora":
        _keep_gradients(model)
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if settings.adapter != "none":
        model = _with_lora(model, settings)
    trained = sum(one.numel() for one in model.parameters() if one.requires_grad)
    log(f"Training {trained:,} parameters on {device.type} ({settings.adapter}, attention: {attention}).")
    return model


def causal_model(model: Any) -> Any:
    """Returns the model without LoRA's wrapper."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def load_base(folder: Path, dtype: torch.dtype, **options: Any) -> Any:
    """Loads the weights of a folder without executing code from it or downloading anything."""
    if (folder / "adapter_config.json").exists():
        # transformers would load the base from whatever path the adapter names.
        raise JobError("The base model's folder contains both a whole model and an adapter.", code="bad_base")
    try:
        return AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, trust_remote_code=False, local_files_only=True, use_safetensors=True, **options
        )
    except (OSError, ValueError, KeyError) as error:
        raise JobError(f"The base model cannot be loaded: {error}", code="bad_base") from error


def _keep_gradients(model: Any) -> None:
    # On CPUs with AVX512-BF16 an evaluation would repack the weights for a
    # kernel without gradients.
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def _with_lora(model: Any, settings: Settings) -> Any:
    # LoRA layers are initialized at random from the seed alone, regardless of earlier draws.
    torch.manual_seed(settings.seed)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules="all-linear",
        exclude_modules=_UNADAPTABLE if model.config.model_type in _STATE_SPACE else None,
    )
    return get_peft_model(model, config)


def _model_class(folder: Path) -> Any:
    """Returns the class that transformers will load, without reading any weights."""
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        return MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    except (OSError, ValueError, KeyError) as error:
        raise JobError(f"The base model cannot be loaded: {error}", code="bad_base") from error


def _attention(model_class: Any, settings: Settings, device: torch.device) -> str:
    # A fifth of the causal models in transformers can compute attention only in plain PyTorch, and refuse to
    # load with anything else.
    plain = "sdpa" if model_class._supports_sdpa else "eager"
    wanted = settings.flash_attention
    if wanted == "off":
        if device.type == "cuda":
            torch.backends.cuda.enable_flash_sdp(False)
        return plain
    is_installed = device.type == "cuda" and importlib.util.find_spec("flash_attn") is not None
    # In batches of several rows, transformers does not pass the limits of packed rows to FlashAttention.
    keeps_apart = is_installed and not (settings.packing and settings.micro_batch_size > 1)
    if keeps_apart and settings.adapter != "none" and model_class._supports_flash_attn:
        return "flash_attention_2"
    if wanted == "on":
        what = "on this node"
        if is_installed:
            what = "for this model" if keeps_apart else "for packed rows with a micro_batch_size above 1"
        log(f"Flash attention is not available {what}; training uses the attention built into PyTorch.")
    return plain
