"""Permanently confines this process before it becomes the command.

Each measure is tried separately, because kernels and their administrators differ in what they allow an
ordinary user. The result lists the measures in force. All of them use system calls through ctypes, because
only the standard library is available here.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import resource
import socket
import struct

from call_filter import AUDIT, filter_child

# Constant for the type checker, because loading `typing` takes longer than this program runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import TypeVarTuple, Unpack

    from orders import Confinement

    Arguments = TypeVarTuple("Arguments")

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_RDONLY = 442, -100, 0x8000, 1
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 38, 47, 4
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
CAPSET = {"x86_64": 126, "aarch64": 91}

EXECUTE, WRITE, READ, READ_DIR, TRUNCATE, IOCTL = 1, 2, 4, 8, 1 << 14, 1 << 15
# The rights that apply to a file; all others are for folders.
FILE_RIGHTS = EXECUTE | WRITE | READ | TRUNCATE | IOCTL
# The number of rights in each version of Landlock, starting with the first.
RIGHTS_OF = (13, 14, 15, 15, 16)
BIND_TCP, CONNECT_TCP = 1, 2

# The files that programs and their libraries read on any machine.
SYSTEM = """/usr /bin /sbin /lib /lib32 /lib64 /opt /nix/store /gnu/store /proc /sys /etc/ld.so.cache /etc/ld.so.conf
/etc/ld.so.conf.d /etc/localtime /etc/timezone /etc/passwd /etc/group /etc/nsswitch.conf /etc/hosts /etc/alternatives
/etc/ssl/openssl.cnf /etc/pki/tls/openssl.cnf /etc/crypto-policies /etc/mime.types /etc/OpenCL /etc/vulkan /etc/nvidia
/dev/zero /dev/random /dev/urandom""".split()
# Examples of files in /proc with which root can change the whole machine.
MACHINE_FILES = ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"]
DEVICES = ["/dev/null", "/dev/full", "/dev/shm", "/dev/dri", "/dev/kfd"]
SHARED_MEMORY = "size=256m,mode=1777"

# The C library, which `confine` opens.
libc: ctypes.CDLL


class Refused(Exception):
    """Raised if the kernel refuses a call."""


def call(name: str, *arguments: object) -> int:
    """Calls a function of the C library; raises Refused if its result is negative."""
    answer: int = getattr(libc, name)(*arguments)
    if answer < 0:
        raise Refused(f"{name}: {os.strerror(ctypes.get_errno())}")
    return answer


def confine(order: Confinement) -> dict[str, str]:
    """Applies `order` and returns the measures in force; process-driver.ts describes its fields."""
    global libc
    set_limits(order)
    held = {"network": "none", "files": "none", "mounts": "none", "privileges": "none", "calls": "none"}
    if platform.system() != "Linux":
        return held
    libc = ctypes.CDLL(None, use_errno=True)
    own_network = order["network"] == "none"
    if attempt(enter_namespaces, own_network):
        held["network"] = "namespace" if own_network else "none"
        if attempt(mount_read_only, order):
            held["mounts"] = "read_only"
    if attempt(drop_privileges):
        held["privileges"] = "dropped"
    if platform.machine() in AUDIT and attempt(filter_child):
        held["calls"] = "filtered"
    version = landlock_version()
    if version and attempt(restrict, order, version, held["mounts"] == "read_only"):
        held["files"] = "landlock"
        if held["network"] == "none" and version >= 4:
            held["network"] = "landlock"
    return held


def attempt(measure: Callable[[Unpack[Arguments]], object], *arguments: Unpack[Arguments]) -> bool:
    """Returns whether the measure succeeded; the kernel's refusals and OSError count as failures."""
    try:
        measure(*arguments)
        return True
    except (Refused, OSError):
        return False


def set_limits(order: Confinement) -> None:
    """Sets the memory and file size limits that `order` contains, and the priority with which the kernel ends
    this process.
    """
    # Not 0: the kernel would still start the program that core_pattern names.
    lower(resource.RLIMIT_CORE, 1)
    if data_mb := order.get("data_mb"):
        lower(resource.RLIMIT_DATA, data_mb << 20)
    if file_mb := order.get("file_mb"):
        lower(resource.RLIMIT_FSIZE, file_mb << 20)
    try:
        # When the whole machine runs out of memory, the kernel ends this process before the
        # node and other programs.
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write(str(order.get("oom_score", 500)))
    except OSError:
        pass


def lower(limit: int, most: int) -> None:
    """Sets both limits to `most`, in the unit of the limit, or to the hard limit if that is lower."""
    _, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(limit, (most, most))


def enter_namespaces(own_network: bool) -> None:
    """Enters new namespaces: directly with root's privileges, otherwise in a user namespace."""
    wanted = CLONE_NEWNS | CLONE_NEWIPC | (CLONE_NEWNET if own_network else 0)
    user, group = os.geteuid(), os.getegid()
    try:
        call("unshare", wanted)
    except Refused:
        call("unshare", wanted | CLONE_NEWUSER)
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"{user} {user} 1")
        write("/proc/self/gid_map", f"{group} {group} 1")
    if own_network:
        attempt(raise_loopback)


def write(path: str, text: str) -> None:
    """Replaces the content of a file; raises OSError."""
    with open(path, "w") as file:
        file.write(text)


def raise_loopback() -> None:
    """Brings up the loopback interface, so that the processes of a run can connect to each other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, name))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def mount_read_only(order: Confinement) -> None:
    """Makes every folder but `writes` read-only, even for the owner of its files. Other
    processes are not affected."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    # Services listen on sockets in /run, and memory in /dev/shm is not charged to any process.
    if os.path.isdir("/run"):
        mount("none", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "size=4k")
    if os.path.isdir("/dev/shm"):
        mount("none", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, SHARED_MEMORY)
    if folder := order.get("folder"):
        hide_neighbours(folder)
    writable = [path for path in order["writes"] if os.path.exists(path)]
    for path in writable:
        mount(path, path, None, MS_BIND | MS_REC)
    has_separate_files = bool(order.get("gpu")) and attempt(separate_process_files)
    change_mount("/", AT_RECURSIVE, add=MOUNT_RDONLY)
    for path in ["/dev/shm", *writable]:
        change_mount(path, 0, remove=MOUNT_RDONLY)
    if has_separate_files:
        # A user namespace cannot make /proc writable if it was read-only before.
        attempt(change_mount, "/proc", 0, 0, MOUNT_RDONLY)
    # The current folder still belongs to the previous mount.
    os.chdir(order.get("cwd", "/"))


def separate_process_files() -> None:
    """Prepares /proc so that only the files of processes can become writable. NVIDIA's drivers since 570 name
    their threads in /proc/self/task/<tid>/comm, and cuInit fails if they cannot. The workers of a server
    do the same, so opening this process's own folder would be too narrow.

    runc lists five folders that stay read-only. Here, every entry that isn't a process becomes a separate
    mount and stays read-only. This covers entries that only other kernels have. It also covers the mode of
    a file: the kernel has one for all mounts of /proc, and root may change it.
    """
    if not has_mounts_below_proc():
        # Only root may mount this. It shows the processes that this one could trace, and Landlock
        # restricts those to its own descendants.
        attempt(mount, "proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=ptraceable")
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() and not entry.is_symlink():
            mount(entry.path, entry.path, None, MS_BIND | MS_REC)


def has_mounts_below_proc() -> bool:
    """Returns whether /proc has mounts below it. Container engines mask files with such mounts, and a second
    /proc would reveal the files.
    """
    with open("/proc/self/mountinfo") as mounts:
        points = [line.split()[4] for line in mounts]
    return any(point.startswith("/proc/") and point != "/proc/sys/fs/binfmt_misc" for point in points)


def hide_neighbours(folder: str) -> None:
    """Hides the other folders next to this one: model servers listen on sockets there, which other processes
    must not find.
    """
    own = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        mount("none", os.path.dirname(folder), "tmpfs", MS_NOSUID | MS_NODEV, "size=4k,mode=755")
        os.mkdir(folder)
        mount(f"/proc/self/fd/{own}", folder, None, MS_BIND)
    finally:
        os.close(own)


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Calls mount(2); raises Refused."""
    texts = [text and os.fsencode(text) for text in (source, target, kind, options)]
    call("mount", *texts[:3], ctypes.c_ulong(flags), texts[3])


def change_mount(path: str, flags: int, add: int = 0, remove: int = 0) -> None:
    """Adds and removes attributes of a mount; raises Refused."""
    attributes = struct.pack("QQQQ", add, remove, 0, 0)
    call("syscall", MOUNT_SETATTR, AT_FDCWD, os.fsencode(path), flags, attributes, len(attributes))


def drop_privileges() -> None:
    """Drops root's capabilities, even for programs that would restore them; raises Refused."""
    number = 0
    while libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
        number += 1
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("II", 0x20080522, 0)
    call("syscall", CAPSET[platform.machine()], header, struct.pack("6I", *[0] * 6))
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def landlock_version() -> int:
    """Returns the kernel's Landlock version; 0 without Landlock."""
    return max(0, libc.syscall(LANDLOCK_CREATE, None, 0, 1))


def restrict(order: Confinement, version: int, has_mounts: bool) -> None:
    """Allows only the listed paths. Hard links in other folders grant no additional rights. Raises Refused or
    OSError.
    """
    known = (1 << RIGHTS_OF[min(version, len(RIGHTS_OF)) - 1]) - 1
    connections = 0
    if version >= 4:
        # Servers of the older kind listen on a port; no child may connect to anything.
        connections = CONNECT_TCP if order["network"] == "listen" else 0
    scopes = 3 if version >= 6 else 0
    attributes = struct.pack("QQQ", known, connections, scopes)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = call("syscall", LANDLOCK_CREATE, attributes, len(attributes), 0)
    try:
        readable = [*SYSTEM, *order["reads"]]
        for path in readable:
            for part in without(path, order["hidden"]):
                allow(ruleset, part, known & (EXECUTE | READ | READ_DIR))
        # The number of GPU devices depends on the driver.
        gpus = [entry.path for entry in os.scandir("/dev") if entry.name.startswith("nvidia")]
        for path in [*DEVICES, *gpus, *order["writes"]]:
            allow(ruleset, path, known)
        if order.get("gpu"):
            # A Landlock rule cannot exclude files in its folder, so something else must protect the machine's
            # settings there.
            is_safe = has_mounts or not any(os.access(path, os.W_OK) for path in MACHINE_FILES)
            allow(ruleset, "/proc" if is_safe else "/proc/self/task", known & (WRITE | TRUNCATE))
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        call("syscall", LANDLOCK_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def without(path: str, hidden: str) -> Iterator[str]:
    """Yields the path, or its entries without `hidden`, because a rule for a folder cannot be revoked for
    something below it.
    """
    if not hidden.startswith(f"{path}/"):
        yield path
        return
    for entry in os.scandir(path):
        if entry.path != hidden and not entry.is_symlink():
            yield from without(entry.path, hidden)


def allow(ruleset: int, path: str, rights: int) -> None:
    """Adds a rule for a path and everything below it to the ruleset of this descriptor; skips paths that
    can't be opened.
    """
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= FILE_RIGHTS
        call("syscall", LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)
