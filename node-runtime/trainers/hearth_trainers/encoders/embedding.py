"""Runs a fine-tuning job for an embedding model from start to finish."""

from __future__ import annotations

from typing import Any

from transformers import AutoModel

from ..job import Job
from ..llm.outputs import report_files
from ..llm.process_group import ProcessGroup
from ..llm.training import FineTuning
from ..loop import StopSignal
from ..protocol import log, report_result
from .base import begin, load_model, prepare
from .contrastive import MultipleNegatives
from .outputs import write_encoder, write_sentence_layout
from .pairs import read_pairs
from .retrieval import MAX_ROWS, retrieval, sample


def train_job(job: Job, stop: StopSignal) -> None:
    """Trains, or resumes training, and writes a folder in the sentence-transformers layout."""
    encoder, settings, device = begin(job)
    pairs = read_pairs(job, settings.val_set_size, settings.seed)
    group = ProcessGroup(device)
    model = load_model(AutoModel, encoder, settings)
    model = prepare(model, settings, task="FEATURE_EXTRACTION", heads=[], device=device)
    learning = MultipleNegatives(
        encoder, pairs, settings, scale=float(job.param("scale")), device=device, world=group.world_size
    )
    # Both parts are measured on the same number of rows, because a text is found more easily among fewer.
    check = sample(pairs.check, MAX_ROWS, settings.seed)
    learnt = sample(pairs.learn, len(check) or MAX_ROWS, settings.seed)
    before = retrieval(learning, model, check) if check else {}
    tuning = FineTuning(job, settings, model=model, objective=learning, stop=stop, device=device, group=group)
    history = tuning.run()
    tuning.save()
    group.shutdown()
    stop.at_once = True
    if not group.is_main_process:
        return

    last = history[-1]
    metrics: dict[str, Any] = {"train_loss": last["train_loss"], "epochs": history}
    metrics |= _named("train_", retrieval(learning, model, learnt))
    if check:
        metrics |= {"eval_loss": last["val_loss"], "eval_rows": len(check)}
        metrics |= _named("eval_", retrieval(learning, model, check)) | _named("base_eval_", before)
        log(
            f"Of {len(check):,} held-out texts, the nearest text is the right one for "
            f"{metrics['eval_accuracy_at_1']:.1%} (with the base: {before['accuracy_at_1']:.1%})."
        )
    directory = write_encoder(job, settings, encoder, model)
    write_sentence_layout(directory, encoder)
    report_files(directory)
    report_result({**metrics, "left_out_columns": pairs.left_out})


def _named(prefix: str, measures: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}{name}": value for name, value in measures.items()}
