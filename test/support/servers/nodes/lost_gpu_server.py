"""Runs model server programs on a machine without a GPU, and simulates CUDA failures that a request names.

A lost GPU behaves as with CUDA: the current call fails, and so does every later call in the process.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "node-runtime" / "servers"))

import torch

SERVERS = Path(__file__).parents[4] / "node-runtime" / "servers"
LOSSES = {
    "access": torch.AcceleratorError(
        "CUDA error: an illegal memory access was encountered\nCompile with `TORCH_USE_CUDA_DSA`."
    ),
    "assert": torch.AcceleratorError("CUDA error: device-side assert triggered"),
    "cublas": RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`"),
}
FAILURES = {
    "memory": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
    "unsupported": RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx(handle)`"),
    "input": RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"),
}
lost = None


def fail(name):
    global lost
    if name in LOSSES:
        lost = LOSSES[name]
        raise lost
    if name in FAILURES:
        raise FAILURES[name]


def synchronize(_device=None):
    if lost:
        raise lost


torch.cuda.synchronize = synchronize


class Turns:
    """A model that answers one request at a time, like translation and OCR models."""

    task = "ocr"

    @property
    def facts(self):
        return {}

    def probe(self, body):
        return body

    def __call__(self, body, disconnected):
        fail(body.get("fails"))
        return {"text": "read"}


def serve_turns(options):
    from asgi import serve
    from sequential_app import SequentialApp

    serve(SequentialApp(Turns(), 1 << 20), options)


def serve_generations(options):
    from asgi import serve
    from generative.base import GenerationOutput, GenerativeModel
    from generative_server import GenerativeApp

    def prepare(fields):
        def generate(job):
            if "steps" in fields:
                job.step(1, 2)
            fail(fields.get("fails"))
            return GenerationOutput([])

        return generate

    serve(GenerativeApp(GenerativeModel("stub", {"text-to-image": prepare})), options)


def serve_chats(folder):
    import accelerator

    accelerator.is_on_gpu = lambda: False
    import llm_server
    from llm.engine import Engine

    compute = Engine._compute_chunk

    def compute_or_fail(self, row, size, length):
        # The seed of a request selects its failure.
        fail(dict(enumerate([*LOSSES, *FAILURES])).get(row.generation.sampling.seed))
        return compute(self, row, size, length)

    Engine._compute_chunk = compute_or_fail
    sys.argv[1:] = ["--model", folder, "--port", "0"]
    llm_server.main()


def main():
    import argparse

    from asgi import server_arguments

    kind, *rest = sys.argv[1:]
    parser = argparse.ArgumentParser()
    server_arguments(parser)
    options = parser.parse_args(["--port", "0"])
    os.environ["HEARTH_DEVICE"] = "cuda"
    if kind == "chats":
        serve_chats(rest[0])
    else:
        {"turns": serve_turns, "generations": serve_generations}[kind](options)


main()
