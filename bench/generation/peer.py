"""Times bare diffusers: reads a seed from each line of standard input, and prints the wall-clock and CPU seconds for an
image. The image is encoded as PNG, as a server has to."""

from __future__ import annotations

import io
import sys
import time

import diffusers
import torch


def main() -> None:
    """Processes input lines until standard input ends."""
    folder, side, steps = sys.argv[1:]
    on_gpu = torch.cuda.is_available()
    torch.set_num_threads(1)
    dtype = torch.bfloat16 if on_gpu else torch.float32
    pipeline = diffusers.DiffusionPipeline.from_pretrained(folder, local_files_only=True, dtype=dtype)
    pipeline = pipeline.to("cuda" if on_gpu else "cpu")
    pipeline.set_progress_bar_config(disable=True)
    print("ready", flush=True)
    for line in sys.stdin:
        began, cpu = time.perf_counter(), time.process_time()
        generator = torch.Generator("cpu").manual_seed(int(line))
        options = {"width": int(side), "height": int(side), "num_inference_steps": int(steps), "generator": generator}
        picture = pipeline("a boat", **options).images[0]
        picture.save(io.BytesIO(), format="png")
        print(time.perf_counter() - began, time.process_time() - cpu, flush=True)


main()
