"""The encoder that a run starts from."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoTokenizer
from transformers.utils import logging

from specialist.engine import padded
from specialist.layout import BadModel, Layout, read_layout
from specialist.texts import Tokenization, Tokens

from ..errors import JobError
from ..job import Job
from ..llm.device import own_device
from ..llm.model import base_folder
from ..llm.settings import LoopSettings, read_loop_settings
from ..protocol import log, warn_about_data
from ..wording import counted

# The model families that the specialist server supports.
FAMILIES = frozenset({"bert", "roberta", "xlm-roberta", "camembert", "distilbert", "mpnet", "electra", "deberta-v2"})
# Embeddings do not use this layer. If it isn't trained, every trained weight gets a gradient.
POOLER = "pooler"


@dataclass(frozen=True)
class Encoder:
    """The base's folder, and how its text becomes tokens."""

    folder: Path
    layout: Layout
    tokenization: Tokenization
    # A tokenizer converted from the base's files, if they lack one that the server can read.
    converted_tokenizer: tempfile.TemporaryDirectory[str] | None
    # The run's sequence_len; the model's own limit may be lower.
    requested_tokens: int

    def tokens_of(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenizes texts as the server will, with the prompt that applies by default."""
        name = self.layout.default_prompt
        prompt = "" if name is None else self.layout.prompts[name]
        found = self.tokenization.encode([prompt + text for text in texts])
        skipped = 0 if self.layout.pooling.has_prompt else self.tokenization.prompt_tokens(prompt) if prompt else 0
        for one in found:
            one.skipped = skipped
        return found

    def warn_about_cut(self, tokens: Sequence[Tokens], rows: Sequence[int]) -> None:
        """Warns about dataset texts whose end was cut off; `rows` are the rows in which they first appear."""
        cut = [row for one, row in zip(tokens, rows, strict=True) if one.is_cut]
        if not cut:
            return
        limit = self.tokenization.max_tokens
        why = f"the model reads no more than {limit}" if limit < self.requested_tokens else f"sequence_len is {limit}"
        warn_about_data(
            f"Cut the end of {counted(len(cut), 'text')}, because {why} tokens; the first is in row {min(cut)}.",
            count=len(cut),
            row=min(cut),
        )

    def inputs_of(self, tokens: Sequence[Tokens], device: torch.device) -> dict[str, torch.Tensor]:
        """Returns padded tokens as inputs for the model."""
        ids, mask, _ = padded(tokens, int(self.layout.config.get("pad_token_id") or 0))
        return {"input_ids": torch.from_numpy(ids).to(device), "attention_mask": torch.from_numpy(mask).to(device)}


def begin(job: Job) -> tuple[Encoder, LoopSettings, torch.device]:
    """Silences the libraries and reads the job; rejects a base that is not a text encoder."""
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    torch.set_num_threads(job.threads)
    device = own_device(job.gpus)
    settings = read_loop_settings(job, device.type)
    return _read_encoder(job, settings), settings, device


def _read_encoder(job: Job, settings: LoopSettings) -> Encoder:
    folder = base_folder(job)
    try:
        layout = read_layout(folder)
        family = str(layout.config.get("model_type"))
        if family not in FAMILIES:
            architecture = (layout.config.get("architectures") or [family])[0]
            raise BadModel(
                f"{architecture} is not a text encoder; its family must be one of {', '.join(sorted(FAMILIES))}"
            )
        layout = replace(layout, max_tokens=min(layout.max_tokens, settings.sequence_len))
        converted_tokenizer = (
            None
            if any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt"))
            else _convert_tokenizer(folder)
        )
        tokenization = Tokenization(layout, [Path(converted_tokenizer.name) if converted_tokenizer else folder])
    except BadModel as error:
        raise JobError(f"The base model cannot be trained: {error}.", code="bad_base") from error
    return Encoder(folder, layout, tokenization, converted_tokenizer, settings.sequence_len)


def _convert_tokenizer(folder: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        place = tempfile.TemporaryDirectory()
        tokenizer.backend_tokenizer.save(str(Path(place.name) / "tokenizer.json"))
    except (OSError, ValueError, AttributeError, ImportError) as error:
        raise BadModel(f"its tokenizer cannot be read: {error}") from error
    return place


def load_model(kind: Any, encoder: Encoder, settings: LoopSettings, **options: Any) -> Any:
    """Loads the weights in 32 bits, without executing code from the folder."""
    if (encoder.folder / "adapter_config.json").exists():
        # transformers would load the base from whatever path the adapter names.
        raise JobError("The base model's folder contains both a whole model and an adapter.", code="bad_base")
    # Weights that the base lacks, such as a head's, are initialized at random and depend on the seed alone.
    torch.manual_seed(settings.seed)
    settings_of_files = {"trust_remote_code": False, "local_files_only": True, "use_safetensors": True}
    try:
        return kind.from_pretrained(encoder.folder, dtype=torch.float32, **settings_of_files, **options)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise JobError(f"The base model cannot be loaded: {error}", code="bad_base") from error


def prepare(model: Any, settings: LoopSettings, *, task: str, heads: Sequence[str], device: torch.device) -> Any:
    """Chooses what to train: all weights, or LoRA layers on the encoder together with whole heads."""
    if settings.adapter == "none":
        if not heads:
            _freeze_pooler(model)
    else:
        model = _with_lora(model, settings, task, heads)
    trained = sum(one.numel() for one in model.parameters() if one.requires_grad)
    log(
        f"Training {trained:,} parameters on {device.type} ({'all weights' if settings.adapter == 'none' else 'LoRA'})."
    )
    return model.to(device)


def _freeze_pooler(model: Any) -> None:
    for name, one in model.named_parameters():
        if POOLER in name.split("."):
            one.requires_grad = False


def _with_lora(model: Any, settings: LoopSettings, task: str, heads: Sequence[str]) -> Any:
    whole = {*heads, POOLER}
    linear = [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and not whole & set(name.split("."))
    ]
    torch.manual_seed(settings.seed)
    config = LoraConfig(
        task_type=task,
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules=linear,
        modules_to_save=list(heads) or None,
    )
    return get_peft_model(model, config)
