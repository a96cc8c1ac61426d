"""Model server for embeddings, rerankers and classifiers: see README.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from asgi import refuse_weights, serve, server_arguments
from specialist.app import SpecialistApp
from specialist.layout import BadModel, read_layout
from specialist.texts import Tokenization
from specialist.weights import open_engine, places_of


def main() -> None:
    """Loads the model, listens, and serves until SIGTERM."""
    parser = argparse.ArgumentParser(description="Serves one text model over HTTP.")
    parser.add_argument("--model", type=Path, required=True, help="folder in Hugging Face format")
    parser.add_argument("--converted", default="", help="output folder of specialist_convert.py, if it has run")
    parser.add_argument("--threads", type=int, default=1)
    server_arguments(parser)
    options = parser.parse_args()
    places = places_of(options.model, options.converted)
    try:
        layout = read_layout(options.model)
        app = SpecialistApp(layout, Tokenization(layout, places), open_engine(layout, places, options.threads))
    except BadModel as problem:
        refuse_weights(str(problem))
    serve(app, options)


if __name__ == "__main__":
    main()
