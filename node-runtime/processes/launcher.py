"""Runs one command so that none of its processes outlives the node: `launcher.py ORDER COMMAND [ARG...]`.

File descriptor 3 is a socket whose other end the node holds. The launcher writes the command's process id
to it once, and reads end-of-file when the node exits, for any reason. The command gets its own process
group. When it exits, or the node does, all its descendants are killed, whatever group or session they
moved to.

ORDER is JSON: the confinement of the command (confinement.py), `{"sandbox": ...}` for a command with its
own root (sandbox.py), or `null`. The command only runs if the measures in the confinement's `require` are
in force. Without a command, the launcher only tries the measures and prints those in force.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys

# Constant for the type checker, because loading `typing` takes longer than this program runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from orders import Confinement, SandboxOrder

# The modules that confine a process; each is loaded only where it is needed, because that takes time.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

LIFELINE = 3
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def load_prctl() -> Callable[..., int] | None:
    """Returns the C library's prctl, or None if the library lacks it."""
    try:
        return ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None  # Not on Linux; only the lifeline and the process group remain.


def start(command: list[str], order: Confinement | SandboxOrder | None, prctl: Callable[..., int] | None) -> int:
    """Returns the process id of the new child, which runs `command` under `order`.

    The child never returns. It exits with 126 if a required measure is not in force, with 127 if the
    program cannot run, and with 1 if the launcher has already exited.
    """
    launcher = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.set_inheritable(LIFELINE, False)
    if order is not None and "sandbox" in order:
        from sandbox import become

        become(order["sandbox"], command)
    # Once confined, this interpreter can no longer read its own library.
    candidates = [os.path.join(folder, command[0]) for folder in os.get_exec_path()]
    program = command[0] if "/" in command[0] else next(filter(os.path.isfile, candidates), command[0])
    if order is not None:
        from confinement import confine

        held = confine(order)
        missing = [name for name, how in order.get("require", {}).items() if held[name] != how]
        if missing:
            os.write(2, f"this node's isolation cannot be set up: {', '.join(missing)}\n".encode())
            os._exit(126)
    if prctl:
        # This must follow everything that changes privileges, because such a change clears it.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != launcher:
            os._exit(1)
    try:
        os.execv(program, command)
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
        os._exit(127)


def descendants(root: int) -> list[int]:
    """Returns the process ids of all descendants of `root`; empty without /proc."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in filter(str.isdigit, names):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                parent = int(stat.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def kill_tree(group: int) -> None:
    """Kills the process group and all descendants until nothing is left. As a subreaper, this process
    inherits every orphan, so it can see them all.
    """
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
    while True:
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main() -> None:
    """Runs the command line; exits with the command's status, or 128 plus the number of the signal that ended it."""
    command = sys.argv[2:]
    if not command:
        from confinement import confine

        measures: Confinement = json.loads(sys.argv[1])
        print(json.dumps(confine(measures)))
        return
    order: Confinement | SandboxOrder | None = json.loads(sys.argv[1])
    prctl = load_prctl()
    if prctl:
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # The node signals the command's group, not this process.

    child = start(command, order, prctl)
    try:
        os.setpgid(child, child)
    except OSError:
        pass  # The child has exited already.
    try:
        os.write(LIFELINE, f"{child}\n".encode())
    except OSError:
        pass
    while True:
        readable, _, _ = select.select([LIFELINE, wake_read], [], [])
        if wake_read in readable:
            os.read(wake_read, 512)
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                kill_tree(child)
                code = os.waitstatus_to_exitcode(status)
                sys.exit(code if code >= 0 else 128 - code)
        if LIFELINE in readable and not os.read(LIFELINE, 64):
            kill_tree(child)
            sys.exit(1)


if __name__ == "__main__":
    main()
