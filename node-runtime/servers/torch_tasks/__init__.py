"""Serves specialists that write text with PyTorch; `torch_server.py` is the program."""
