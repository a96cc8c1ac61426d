from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import call_filter as calls
import launcher
from confinement import without

Step = tuple[int, int, int, int]


def decide(steps: list[Step], number: int, arguments: tuple[int, ...] = ()) -> int:
    """Runs a filter as the kernel does, and returns its decision about a system call on this machine's
    architecture.
    """
    data = {0: number, 4: calls.AUDIT[calls.MACHINE]}
    data.update({16 + 8 * index: value for index, value in enumerate(arguments)})
    at, loaded = 0, number
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == calls.RETURN:
            return value
        if code == calls.LOAD:
            loaded = data[value]
        elif code == calls.AND:
            loaded &= value
        else:
            test = {calls.JUMP_EQUAL: loaded == value, calls.JUMP_ANY: bool(loaded & value)}
            at += if_true if test.get(code, loaded >= value) else if_false


def installed(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Step]:
    found: list[Step] = []
    monkeypatch.setattr(calls, "install", found.extend)
    getattr(calls, name)()
    return found


def number(name: str) -> int:
    table = {**calls.NUMBERS, **calls.UNCOUNTED_CALLS, **calls.DISK_SYNCS, **calls.FILE_SYNCS, **calls.PINNING_CALLS}
    found = calls.number_of(table[name])
    assert found is not None
    return found


needs_known_machine = pytest.mark.skipif(calls.MACHINE not in calls.AUDIT, reason="the filter has no table of this CPU")


@needs_known_machine
@pytest.mark.parametrize(
    ("name", "arguments", "decision"),
    [
        ("socket", (calls.AF_INET,), calls.ALLOW),
        ("socket", (calls.AF_VSOCK,), calls.ERROR | calls.EPERM),
        ("memfd_create", (), calls.ERROR | calls.EPERM),
        ("splice", (), calls.ERROR | calls.EINVAL),
        ("fsync", (), calls.ERROR),
        ("clone3", (), calls.ERROR | calls.ENOSYS),
        ("clone", (calls.CLONE_FILES | calls.CLONE_THREAD,), calls.ALLOW),
        ("clone", (calls.CLONE_FILES,), calls.ERROR | calls.EPERM),
        ("clone", (0x10000000,), calls.ERROR | calls.EPERM),
        ("mmap", (0, 0, 0, calls.MAP_SHARED | calls.MAP_ANONYMOUS), calls.ERROR | calls.EPERM),
        ("mmap", (0, 0, 0, calls.MAP_ANONYMOUS), calls.ALLOW),
        ("setsockopt", (0, calls.SOL_SOCKET, calls.FILTER_OPTIONS[0]), calls.ERROR | calls.EPERM),
        ("setsockopt", (0, calls.SOL_SOCKET, calls.BUFFER_OPTIONS[0]), calls.ERROR),
        ("setsockopt", (0, 6, calls.FILTER_OPTIONS[0]), calls.ALLOW),
        ("prctl", (calls.PR_SET_SECCOMP,), calls.ERROR | calls.EINVAL),
        ("fcntl", (0, calls.F_OFD_SETLK), calls.ERROR | calls.EPERM),
    ],
)
def test_tool_filter_decides(
    monkeypatch: pytest.MonkeyPatch, name: str, arguments: tuple[int, ...], decision: int
) -> None:
    assert decide(installed(monkeypatch, "filter_tool"), number(name), arguments) == decision


@needs_known_machine
def test_tool_filter_refuses_unknown_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = installed(monkeypatch, "filter_tool")

    assert decide(steps, calls.FIRST_UNKNOWN) == calls.ERROR | calls.ENOSYS
    assert decide(steps, calls.X32 + 1) == calls.ERROR | calls.EPERM


@needs_known_machine
def test_child_filter_keeps_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = installed(monkeypatch, "filter_child")

    assert decide(steps, number("fsync")) == calls.ALLOW
    assert decide(steps, number("sync")) == calls.ERROR | calls.EPERM
    assert decide(steps, number("io_uring_setup")) == calls.ERROR | calls.EPERM


def test_without_lists_the_entries_next_to_a_hidden_folder(tmp_path: Path) -> None:
    for name in ("a/secret", "a/public", "b"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "secret")

    paths = set(without(str(tmp_path), str(tmp_path / "a" / "secret")))

    assert paths == {str(tmp_path / "a" / "public"), str(tmp_path / "b")}
    assert list(without("/usr", str(tmp_path))) == ["/usr"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this machine has no /proc")
def test_descendants_finds_a_child() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in launcher.descendants(os.getpid())
    finally:
        child.communicate(b"\n")
