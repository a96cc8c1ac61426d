"""Serves a language model with PyTorch; `llm_server.py` is the program."""
