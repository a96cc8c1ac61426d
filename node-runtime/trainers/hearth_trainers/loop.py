"""The epoch loop that every trainer shares: losses, progress, checkpoints, signals, early stopping."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from .checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from .errors import Stopped
from .job import Job
from .protocol import emit

PROGRESS_INTERVAL_S = 0.5
# A chart shows at most this many epochs, and the control plane stores a row for each reported epoch.
MAX_REPORTED_EPOCHS = 2_000
# The maximum share of the time that is spent on writing checkpoints.
CHECKPOINT_SHARE = 0.05


class StopSignal:
    """Handles SIGTERM: the run ends immediately while it is reading data, after the current epoch while it is
    training, and never while it is finishing.
    """

    def __init__(self) -> None:
        self.requested = False
        self.at_once = True
        signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        if self.at_once:
            # Raised only once: at a second signal the process is already exiting.
            self.at_once = False
            raise Stopped


class EpochLoop:
    """Tracks a trainer's epochs and decides when to stop. The trainer calls it after each epoch."""

    def __init__(self, job: Job, stop: StopSignal) -> None:
        self._job = job
        self._stop = stop
        self._digest = job.digest()
        self._patience = int(job.param("early_stopping_epochs"))
        self._every = int(job.param("checkpoint_every_epochs"))
        self.epochs = int(job.param("epochs"))
        self._stride = -(-self.epochs // MAX_REPORTED_EPOCHS)
        self.history: list[dict[str, Any]] = []
        self._saved_epoch = 0
        self._saved_at = time.monotonic()
        self._save_duration_s = 0.0
        self._reported_at = 0.0

    def require(self, rule: str) -> None:
        """Makes the run resume only from checkpoints of runs with the same requirement."""
        self._digest = f"{self._digest} {rule}"

    def restore(self) -> dict[str, bytes] | None:
        """Returns the learner's state to resume from, or None."""
        path = self._job.resume_from
        checkpoint = read_checkpoint(path, self._digest) if path else None
        if checkpoint is None:
            return None
        self.history = checkpoint.history
        self._saved_epoch = checkpoint.epoch
        emit("resumed", epoch=checkpoint.epoch)
        return checkpoint.parts

    @property
    def epoch(self) -> int:
        """The number of completed epochs."""
        return len(self.history)

    @property
    def is_over(self) -> bool:
        """True when no epoch is left, or the validation loss has gone too long without falling."""
        if self.epoch >= self.epochs:
            return True
        return self._patience > 0 and self.epoch - self.best_epoch >= self._patience

    @property
    def best_epoch(self) -> int:
        """The epoch of the final model: the one with the lowest validation loss, whether or not
        the training stops early."""
        if not self.history:
            return 0
        losses = [entry["val_loss"] for entry in self.history]
        return losses.index(min(losses)) + 1

    def begin(self) -> None:
        """From here on, a stop waits for the end of the epoch."""
        self._stop.at_once = False
        self._saved_at = time.monotonic()
        if self._stop.requested:
            raise Stopped

    def done(self, train_loss: float, val_loss: float, save: Callable[[], dict[str, bytes]], **internal: Any) -> None:
        """Ends an epoch: reports it, and writes a checkpoint when one is due. Raises
        `Stopped` after a SIGTERM."""
        entry = {"epoch": self.epoch + 1, "train_loss": train_loss, "val_loss": val_loss}
        self.history.append({**entry, **internal})
        if self._is_reported(self.epoch):
            emit("metric", **entry)
        self._report_progress()
        if self._stop.requested:
            self._save(save)
            raise Stopped
        if not self.is_over and self._is_due():
            self._save(save)

    def losses(self) -> list[dict[str, Any]]:
        """Returns `{epoch, train_loss, val_loss}` for the reported epochs, and for the one with the lowest validation
        loss."""
        losses = [entry["val_loss"] for entry in self.history]
        lowest = losses.index(min(losses)) + 1 if losses else 0
        return [
            {name: entry[name] for name in ("epoch", "train_loss", "val_loss")}
            for entry in self.history
            if entry["epoch"] == lowest or self._is_reported(entry["epoch"])
        ]

    def _is_reported(self, epoch: int) -> bool:
        """Returns whether to report an epoch. A long run reports every n-th one, plus the first and the last."""
        return epoch % self._stride == 0 or epoch == 1 or (epoch == self.epoch and self.is_over)

    def _is_due(self) -> bool:
        if self._every and self.epoch % self._every == 0:
            return True
        interval = max(self._job.checkpoint_interval_s, self._save_duration_s / CHECKPOINT_SHARE)
        return time.monotonic() - self._saved_at >= interval

    def _save(self, save: Callable[[], dict[str, bytes]]) -> None:
        started = time.monotonic()
        if self.epoch > self._saved_epoch:
            checkpoint = Checkpoint(self._digest, self.epoch, self.history, save())
            write_checkpoint(self._job.checkpoint_dir, checkpoint)
            self._saved_epoch = self.epoch
        self._saved_at = time.monotonic()
        self._save_duration_s = self._saved_at - started

    def _report_progress(self) -> None:
        now = time.monotonic()
        if now - self._reported_at < PROGRESS_INTERVAL_S and not self.is_over:
            return
        self._reported_at = now
        emit(
            "progress",
            epoch=self.epoch,
            epochs=self.epochs,
            fraction=1.0 if self.is_over else self.epoch / self.epochs,
            message=f"Epoch {self.epoch} of {self.epochs}",
        )
