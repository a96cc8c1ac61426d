"""Serves specialists that generate text with PyTorch; `torch_server.py` is the program."""
