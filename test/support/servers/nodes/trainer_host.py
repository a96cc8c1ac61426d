"""Runs trainers in forks of one process: importing their libraries takes longer than training a tiny model.

Each line of stdin is `{"job": path of a job file, "path": path of a Unix socket}`. A run connects to the socket three
times: for its process id and, at its end, its exit status (negative: the signal), for its stdout, and for its stderr.
"""

import importlib
import json
import os
import runpy
import signal
import socket
import sys

# Imported in advance, so that the runs don't have to.
for name in ("encoders.classification", "encoders.embedding", "llm.finetune"):
    importlib.import_module(f"hearth_trainers.{name}")


def connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


def host(job: str, path: str) -> bool:
    """Runs one job. Returns True in the training process, which must exit like a trainer that was started directly."""
    if os.fork():
        return False
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = connected(path)
    streams = [connected(path), connected(path)]
    pid = os.fork()
    if pid == 0:
        status.close()
        for number, stream in enumerate(streams, start=1):
            os.dup2(stream.fileno(), number)
            stream.close()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["hearth_trainers", job]
        return True
    for stream in streams:
        stream.close()
    status.sendall(f"{pid}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status.sendall(f"{code}\n".encode())
    os._exit(0)


# The kernel reaps the processes that wait for the trainers.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while line := sys.stdin.readline():
    if host(**json.loads(line)):
        break
else:
    sys.exit(0)
runpy.run_module("hearth_trainers", run_name="__main__", alter_sys=True)
