"""The loss of a causal language model, computed in chunks of tokens. The logits of a whole batch often need more
memory than the rest of the training: 128,000 for each token.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from ..protocol import log
from .kernels import FusedLoss, are_close, fused_loss
from .model import causal_model
from .render import IGNORED

# The number of logits in memory at once: 512 tokens with a vocabulary of 128,000, or 256 MB in float32.
# domain/models/tuning-memory.ts reserves memory for them.
CHUNK_LOGITS = 1 << 26
# Shares of the largest logit. The same multiplication may round differently for other numbers of tokens.
_TOLERANCE = 0.02
_CHECKED_TOKENS = 16

Inputs = dict[str, torch.Tensor]
# Returns the logits for hidden states of shape [tokens, width].
Head = Callable[[torch.Tensor], torch.Tensor]


class TokenLoss:
    """Sums the losses of tokens. `sample` is the text on which it checks that it can split the model."""

    def __init__(self, model: Any, device: torch.device, sample: list[int], *, uses_liger: bool = False) -> None:
        self._device = device
        self._fused: FusedLoss | None = None
        self._split = _SplitModel(model)
        self.is_chunked = self._can_split(model, sample)
        if not self.is_chunked:
            log("The loss of this model cannot be computed in chunks, so training needs more memory.")
        elif uses_liger:
            self._fused = self._fused_loss(model, sample)

    def __call__(self, model: Any, inputs: Inputs, labels: torch.Tensor) -> torch.Tensor:
        """Returns the sum of the losses of all labels after the first token of each row."""
        following = F.pad(labels[:, 1:], (0, 1), value=IGNORED).flatten()
        places = (following != IGNORED).nonzero().flatten()
        if len(places) == 0:
            # One logit keeps all weights in the graph; its label is ignored.
            places = torch.zeros(1, dtype=torch.long)
        targets = following[places].to(self._device, non_blocking=True)
        places = places.to(self._device, non_blocking=True)
        inputs = {name: one.to(self._device, non_blocking=True) for name, one in inputs.items()}
        if not self.is_chunked:
            with self._autocast():
                logits = model(**inputs, use_cache=False).logits
            return _summed(logits.flatten(0, 1)[places], targets)
        with self._autocast():
            output = self._split.decode(model, inputs)
        hidden = output.last_hidden_state.flatten(0, 1)[places]
        if self._fused:
            with self._autocast():
                return self._fused(hidden, targets)
        return self._chunked(output, hidden, targets)

    def _chunked(self, output: Any, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        def head(chunk: torch.Tensor) -> torch.Tensor:
            with self._autocast():
                return self._split.logits(output, chunk)

        chunks = _Chunks(head, targets, max(1, CHUNK_LOGITS // self._split.vocabulary), torch.is_grad_enabled())
        return _ChunkedLoss.apply(chunks, hidden, *self._split.head_weights())  # type: ignore[no-any-return]

    def _fused_loss(self, model: Any, sample: list[int]) -> FusedLoss | None:
        """Returns Liger's loss if it equals that of the model's own head, which may scale the logits."""
        ids = torch.tensor([sample[:_CHECKED_TOKENS]], device=self._device)
        fused = fused_loss(self._split.embeddings, self._split.softcap)
        try:
            with torch.no_grad(), self._autocast():
                output = self._split.decode(model, {"input_ids": ids})
            found, expected = (
                self._loss_and_gradient(output, ids[0], loss)
                for loss in (fused, lambda hidden, targets: self._chunked(output, hidden, targets))
            )
            if are_close(found, expected):
                return fused
            why = "its result differs"
        except Exception as error:  # Triton raises errors of many kinds if it cannot compile.
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        log(f"Liger's fused loss is not used for this model ({why}); the loss is computed in chunks.")
        return None

    def _loss_and_gradient(self, output: Any, targets: torch.Tensor, loss: FusedLoss) -> torch.Tensor:
        hidden = output.last_hidden_state[0].detach().requires_grad_()
        with self._autocast():
            summed = loss(hidden, targets)
        [gradient] = torch.autograd.grad(summed, [hidden])
        return torch.cat([summed.detach().float().flatten(), gradient.float().flatten()])

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type != "cpu")

    @torch.no_grad()
    def _can_split(self, model: Any, sample: list[int]) -> bool:
        """Returns whether the two halves of the model give the same logits as the whole model."""
        if not self._split.is_known:
            return False
        was_training = model.training
        model.eval()
        try:
            inputs = {"input_ids": torch.tensor([sample[:_CHECKED_TOKENS]], device=self._device)}
            with self._autocast():
                expected = model(**inputs, use_cache=False).logits[0].float()
                output = self._split.decode(model, inputs)
                found = self._split.logits(output, output.last_hidden_state[0]).float()
            return expected.shape == found.shape and bool(
                (expected - found).abs().max() <= _TOLERANCE * expected.abs().max()
            )
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
            return False
        finally:
            model.train(was_training)


class _SplitModel:
    """The decoder and the head of a model. The head runs the model's own code, because some models scale or cap
    their logits.
    """

    def __init__(self, model: Any) -> None:
        self._whole = causal_model(model)
        self._decoder = self._whole.base_model
        self.embeddings = self._whole.get_output_embeddings()
        self.softcap = getattr(self._whole.config, "final_logit_softcapping", None)
        takes = inspect.signature(self._whole.forward).parameters
        self.vocabulary = self.embeddings.weight.shape[0] if self.embeddings is not None else 0
        self.is_known = self._decoder is not self._whole and self.vocabulary > 0 and "logits_to_keep" in takes

    def decode(self, model: Any, inputs: Inputs) -> Any:
        """Returns the decoder's output. `model` may be a wrapper, which must see every forward pass."""
        seen: list[Any] = []
        hook = self._decoder.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
        try:
            # The logits of one token are computed and not used.
            model(**inputs, use_cache=False, logits_to_keep=1)
        finally:
            hook.remove()
        return seen[0]

    def logits(self, output: Any, hidden: torch.Tensor) -> torch.Tensor:
        """Returns the logits for hidden states that were selected from the decoder's output."""
        with _returning(self._decoder, type(output)(**{**output, "last_hidden_state": hidden.unsqueeze(0)})):
            ids = torch.zeros((1, len(hidden)), dtype=torch.long, device=hidden.device)
            return self._whole(input_ids=ids, use_cache=False).logits[0]

    def head_weights(self) -> list[torch.nn.Parameter]:
        """Returns the trained weights that the head uses; the decoder shares tied embeddings."""
        shared = {id(one) for one in self._decoder.parameters()}
        own = [one for one in self._whole.parameters() if id(one) not in shared]
        tied = [one for one in self.embeddings.parameters() if id(one) in shared]
        return [one for one in (*own, *tied) if one.requires_grad]


@dataclass(frozen=True)
class _Chunks:
    """The tokens of a batch that are trained on. A chunk has `size` of them."""

    head: Head
    targets: torch.Tensor
    size: int
    is_trained: bool


class _ChunkedLoss(torch.autograd.Function):
    """Computes the gradients of each chunk along with its loss, so that no chunk's logits are needed later."""

    @staticmethod
    def forward(ctx: Any, chunks: _Chunks, hidden: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        total = torch.zeros((), device=hidden.device)
        hidden_grads: list[torch.Tensor] = []
        weight_grads: list[torch.Tensor] = []
        for chunk, targets in zip(hidden.split(chunks.size), chunks.targets.split(chunks.size), strict=True):
            own = chunk.detach().requires_grad_(chunks.is_trained)
            with torch.set_grad_enabled(chunks.is_trained):
                loss = _summed(chunks.head(own), targets)
            total += loss.detach()
            if chunks.is_trained:
                hidden_grad, *others = torch.autograd.grad(loss, [own, *weights], materialize_grads=True)
                hidden_grads.append(hidden_grad)
                weight_grads = _added(weight_grads, others)
        if chunks.is_trained:
            ctx.save_for_backward(torch.cat(hidden_grads), *weight_grads)
        return total

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> Any:
        return None, *(one * upstream[0] for one in ctx.saved_tensors)


def _added(sums: list[torch.Tensor], more: list[torch.Tensor]) -> list[torch.Tensor]:
    if not sums:
        return more
    return [one.add_(other) for one, other in zip(sums, more, strict=True)]


def _summed(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="sum")


@contextmanager
def _returning(module: torch.nn.Module, output: Any) -> Iterator[None]:
    """Makes a module return this output, whatever its input."""
    own = module.__dict__.get("forward")
    module.forward = lambda *_args, **_options: output
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own
