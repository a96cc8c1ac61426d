"""Model server for speech to text: see README.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ["HF_HUB_OFFLINE"] = "1"

from asgi import serve, server_arguments
from data_urls import MAX_BODY
from sequential_app import SequentialApp
from speech.openai_speech import openai_routes
from speech.whisper import SpeechModel


def main() -> None:
    """Loads the model, listens, and serves until SIGTERM."""
    parser = argparse.ArgumentParser(description="Serves one speech model over HTTP.")
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        help="folder of a CTranslate2 model, or of the model that it was converted from",
    )
    parser.add_argument("--converted", default="", help="folder that whisper_convert.py wrote, if any")
    parser.add_argument("--threads", type=int, default=1)
    server_arguments(parser)
    options = parser.parse_args()
    folder = Path(options.converted) if options.converted else options.model
    model = SpeechModel(folder, options.threads)
    serve(SequentialApp(model, MAX_BODY, openai_routes(model)), options)


if __name__ == "__main__":
    main()
