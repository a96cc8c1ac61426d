"""Runs a fine-tuning job for a text classifier from start to finish."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification

from ..job import Job
from ..labels import class_metrics
from ..llm.outputs import report_files
from ..llm.process_group import ProcessGroup
from ..llm.settings import LoopSettings
from ..llm.training import FineTuning
from ..loop import StopSignal
from ..protocol import log, report_result
from ..schemas import example_text
from .base import Encoder, begin, load_model, prepare
from .classes import Classes
from .outputs import write_encoder
from .texts import read_labelled_texts

# The number of training rows that are evaluated in addition to the held-out ones.
MAX_LEARNT = 2_000


def train_job(job: Job, stop: StopSignal) -> None:
    """Trains, or resumes training, and writes a transformers folder with a head for the classes."""
    encoder, settings, device = begin(job)
    data = read_labelled_texts(job, settings.val_set_size, settings.seed)
    group = ProcessGroup(device)
    model, heads = _load(encoder, settings, data.labels.classes)
    model = prepare(model, settings, task="SEQ_CLS", heads=heads, device=device)
    learning = Classes(
        encoder, data, settings, mode=str(job.param("class_weight")), device=device, world=group.world_size
    )
    tuning = FineTuning(job, settings, model=model, objective=learning, stop=stop, device=device, group=group)
    history = tuning.run()
    tuning.save()
    group.shutdown()
    stop.at_once = True
    if not group.is_main_process:
        return

    last = history[-1]
    learnt = np.sort(np.random.default_rng([settings.seed, 2]).permutation(data.learn)[:MAX_LEARNT])
    held_out = class_metrics(data.labels, data.check, learning.probabilities(model, data.check))
    trained = class_metrics(data.labels, learnt, learning.probabilities(model, learnt))
    metrics: dict[str, Any] = {
        "train_loss": last["train_loss"],
        "eval_loss": last["val_loss"],
        "eval_rows": len(data.check),
        **held_out,
        **{f"train_{name}": value for name, value in trained.items()},
        "epochs": history,
    }
    log(f"Of {len(data.check):,} held-out texts, {held_out['accuracy']:.1%} are assigned the right class.")
    text = example_text(data.texts[data.check[0]])
    example = _example(text, data.labels.classes, learning.probabilities_of(model, text))
    write_encoder(job, settings, encoder, model)
    report_files(job.output_dir)
    report_result({**metrics, "left_out_columns": data.left_out}, **example)


def _load(encoder: Encoder, settings: LoopSettings, classes: list[str]) -> tuple[Any, list[str]]:
    """Returns the model and the names of its head's parts. The base's head is kept if it has exactly these
    classes; any other head starts at random.
    """
    named = dict(enumerate(classes))
    model = load_model(
        AutoModelForSequenceClassification,
        encoder,
        settings,
        id2label=named,
        label2id={name: code for code, name in named.items()},
        problem_type="single_label_classification",
        ignore_mismatched_sizes=True,
    )
    heads = [
        name
        for name, module in model.named_children()
        if name != model.base_model_prefix and any(True for _ in module.parameters())
    ]
    if encoder.layout.labels != tuple(classes):
        torch.manual_seed(settings.seed)
        for name in heads:
            _reinitialize(model.get_submodule(name), model.config.initializer_range)
    else:
        log("The base has a head for these classes, which is trained further.")
    return model, heads


@torch.no_grad()
def _reinitialize(head: torch.nn.Module, spread: float) -> None:
    for module in head.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.normal_(0.0, spread)
            if module.bias is not None:
                module.bias.zero_()


def _example(text: str, classes: list[str], probabilities: np.ndarray) -> dict[str, Any]:
    scores = dict(zip(classes, probabilities.tolist(), strict=True))
    return {
        "example_input": {"text": text},
        "example_output": {"label": classes[int(probabilities.argmax())], "scores": scores},
    }
