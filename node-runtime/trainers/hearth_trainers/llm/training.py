"""The loop over optimizer steps: losses, checkpoints, signals, evaluation."""

from __future__ import annotations

import time
from typing import Any

import torch

from ..errors import Stopped
from ..job import Job
from ..loop import StopSignal
from ..protocol import emit, log
from .objective import Objective
from .optimize import make_optimizer, make_scheduler
from .process_group import ProcessGroup
from .settings import LoopSettings
from .state import Learner, Position, random_state, read_state, write_state

LOG_INTERVAL_S = 2.0
PROGRESS_INTERVAL_S = 0.5


class FineTuning:
    """One run of one model over one dataset."""

    def __init__(
        self,
        job: Job,
        settings: LoopSettings,
        *,
        model: Any,
        objective: Objective,
        stop: StopSignal,
        device: torch.device,
        group: ProcessGroup,
        uses_liger: bool = False,
    ) -> None:
        self._job = job
        self._settings = settings
        self._objective = objective
        self._stop = stop
        self._group = group
        self._device = device
        self._digest = job.digest()
        self.plan = objective.plan
        trained = [one for one in model.parameters() if one.requires_grad]
        optimizer = make_optimizer(trained, settings, device)
        scheduler = make_scheduler(optimizer, settings, self.plan.total_steps)
        self._learner = Learner(model, optimizer, scheduler, device, uses_liger)
        self._trained = trained
        self._model = group.prepare_model(model)
        self.position = Position()
        self._saved_step = -1
        self._reported_at = self._logged_at = 0.0
        self._tokens_since = 0
        # Counted for this attempt only.
        self.tokens_seen = 0

    def run(self) -> list[dict[str, Any]]:
        """Trains to the end and returns the losses of every epoch. Raises `Stopped` after a
        SIGTERM, with a checkpoint."""
        self._begin()
        while self.position.step < self.plan.total_steps:
            loss = self._step()
            self._report(loss)
            at = self.position.step
            if at % self.plan.steps_per_epoch == 0 or at == self.plan.total_steps:
                self._end_epoch()
            if self._is_stopped():
                self.save()
                raise Stopped
            if at % self._settings.save_every(self.plan.total_steps) == 0 and at < self.plan.total_steps:
                self.save()
        return self.position.history

    def save(self) -> None:
        """Writes a checkpoint unless this step already has one."""
        if self.position.step in (0, self._saved_step):
            return
        self._saved_step = self.position.step
        randoms = self._group.gather_object(random_state(self._device))
        if self._group.is_main_process:
            write_state(self._job.checkpoint_dir, self._digest, self.position, self._learner, randoms)
        self._group.wait_for_everyone()

    def _begin(self) -> None:
        torch.manual_seed(self._settings.seed)
        path = self._job.resume_from
        found = read_state(path, self._digest, self._learner, self._group.rank) if path else None
        if found:
            self.position = found
            self._saved_step = found.step
            emit("resumed", epoch=found.step)
        log(
            f"{self.plan.total_steps:,} steps, {self.plan.steps_per_epoch:,} per epoch; "
            f"a checkpoint every {self._settings.save_every(self.plan.total_steps):,} steps."
        )
        self._stop.at_once = False
        self._logged_at = time.monotonic()
        self._model.train()

    def _is_stopped(self) -> bool:
        return self._group.reduce_sum(float(self._stop.requested))[0] > 0

    def _step(self) -> float:
        """Performs one optimizer step; returns the mean loss of its targets."""
        batches, targets = self._objective.step(self.position.step, self._group.rank)
        total = 0.0
        for number, batch in enumerate(batches, 1):
            last = number == len(batches)
            with torch.enable_grad() if last else self._group.no_sync(self._model):
                summed = self._objective.loss(self._model, batch)
                # Gradients are averaged over the processes; this factor makes the loss the mean over all
                # processes' targets.
                (summed * (self._group.world_size / max(1, targets))).backward()
            total += summed.detach()
        if self._settings.max_grad_norm > 0:
            torch.nn.utils.clip_grad_norm_(self._trained, self._settings.max_grad_norm)
        self._learner.optimizer.step()
        self._learner.scheduler.step()
        self._learner.optimizer.zero_grad(set_to_none=True)
        own_tokens = sum(batch.tokens for batch in batches)
        loss_sum, tokens = self._group.reduce_sum(float(total), own_tokens)
        at = self.position
        at.step += 1
        at.loss_sum += loss_sum
        at.targets += targets
        at.tokens += int(tokens)
        self._tokens_since += int(tokens)
        self.tokens_seen += int(tokens)
        return loss_sum / max(1, targets)

    @torch.no_grad()
    def _validate(self) -> float | None:
        self._model.eval()
        # The distributed model synchronizes its buffers in each forward pass, but the processes may have
        # different numbers of batches.
        loss = self._objective.validate(self._learner.model, self._group)
        self._model.train()
        return loss

    def _end_epoch(self) -> None:
        at = self.position
        entry: dict[str, Any] = {
            "epoch": len(at.history) + 1,
            "train_loss": at.loss_sum / max(1, at.targets),
            "val_loss": self._validate(),
        }
        if entry["val_loss"] is not None:
            entry |= {"eval_loss": entry["val_loss"], **self._objective.measures(entry["val_loss"])}
        at.history.append(entry)
        at.loss_sum, at.targets = 0.0, 0
        emit("metric", **entry)
        measures = [f", {name} {value:.4g}" for name, value in entry.items() if name.startswith("eval_")]
        log(f"Epoch {entry['epoch']} of {self.plan.epochs}: train_loss {entry['train_loss']:.4g}{''.join(measures)}")

    def _report(self, loss: float) -> None:
        now, at, total = time.monotonic(), self.position.step, self.plan.total_steps
        if now - self._reported_at >= PROGRESS_INTERVAL_S or at == total:
            self._reported_at = now
            epoch = min(self.plan.epochs, len(self.position.history) + 1)
            message = f"Step {at} of {total}"
            emit("progress", epoch=epoch, epochs=self.plan.epochs, fraction=at / total, message=message)
        if at == 1 or now - self._logged_at >= LOG_INTERVAL_S or at == total:
            speed = self._tokens_since / max(1e-9, now - self._logged_at)
            rate = self._learner.optimizer.param_groups[0]["lr"]
            log(f"Step {at} of {total}: loss {loss:.4f}, learning rate {rate:.3g}, {speed:,.0f} tokens/s")
            self._logged_at, self._tokens_since = now, 0
