"""Model server for specialists on PyTorch: see README.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ["HF_HUB_OFFLINE"] = "1"

from asgi import refuse_weights, serve, server_arguments
from gpu_loss import end_if_gpu_is_lost
from specialist.layout import BadModel
from torch_tasks.models import open_app
from weight_faults import is_fault_of_weights, reason_of


def main() -> None:
    """Loads the model, listens, and serves until SIGTERM."""
    parser = argparse.ArgumentParser(description="Serves one specialist over HTTP.")
    parser.add_argument("--model", type=Path, required=True, help="folder in Hugging Face format")
    parser.add_argument("--threads", type=int, default=1)
    server_arguments(parser)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    try:
        app = open_app(options.model, options.threads)
    except BadModel as problem:
        refuse_weights(str(problem))
    except Exception as error:
        end_if_gpu_is_lost(error)
        if is_fault_of_weights(error):
            refuse_weights(reason_of(error))
        sys.exit(f"The model in {options.model} cannot be served: {error}")
    serve(app, options)


if __name__ == "__main__":
    main()
