"""Becomes a command that sees nothing of this machine except what its order names.

It gets its own namespaces for processes, mounts, networks, names and shared memory, its own root in memory
with a few read-only folders mounted into it, a user without privileges, and limits. Every measure must
succeed; otherwise the command doesn't run. All of them use system calls through ctypes, because only the
standard library is available here.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct

from call_filter import filter_tool

# Constant for the type checker, because loading `typing` takes longer than this program runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from orders import Sandbox

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x00020000, 0x02000000, 0x04000000
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
APART = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4
MNT_DETACH, AT_FDCWD, AT_RECURSIVE = 2, -100, 0x8000
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
PR_SET_THP_DISABLE = 41
SIGKILL = 9
MOUNT_SETATTR = 442

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
READ_FILE, REFER = 1 << 2, 1 << 13

MACHINE = os.uname().machine
# System call numbers that depend on the machine: capset and pivot_root.
CAPSET, PIVOT_ROOT = {"x86_64": (126, 155), "aarch64": (91, 41)}.get(MACHINE, (None, None))

# The machine's programs and libraries. Symlinks stay symlinks, for example where /lib is part of /usr.
SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"]
SYSTEM_FILES = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls",
    "/etc/pki/ca-trust/extracted",
]
OWN_FILES = {
    "/etc/passwd": "tool:x:65534:65534::/tmp:/bin/sh\n",
    "/etc/group": "tool:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
DEVICES = ["null", "full", "random", "urandom"]
# The files in /proc that programs read to learn about the machine and about the tool's first process.
READABLE_FILES = """cpuinfo filesystems loadavg meminfo stat sys uptime version vmstat 1/cgroup 1/cmdline 1/comm
1/limits 1/maps 1/mountinfo 1/mounts 1/net 1/stat 1/statm 1/status""".split()
# Shared mappings of the device /dev/zero are memory that belongs to no process, so a sparse file replaces it.
ZERO_BYTES = 1 << 50
NOBODY = 65534
# No files belong to users with these ids. Each run gets a different user, so its processes are counted
# separately.
FIRST_USER = 0x30000000
# With the two buffers that count for each socket (416 KB) and 64 processes, this amounts to 3.4 GB.
MAX_OPEN_FILES = 128
MAX_PENDING_SIGNALS = 1_024
# When memory runs out, the kernel ends tools before anything else.
OOM_SCORE = "1000"
MB = 1 << 20

# The C library, which `become` opens.
libc: ctypes.CDLL


class Refused(Exception):
    """Raised if the kernel refuses a step."""


def call(name: str, *arguments: object) -> int:
    """Calls a function of the C library; raises Refused if its result is negative."""
    answer: int = getattr(libc, name)(*arguments)
    if answer < 0:
        raise Refused(f"{name} {arguments[0] if arguments else ''}: {os.strerror(ctypes.get_errno())}")
    return answer


def become(order: Sandbox, command: list[str]) -> NoReturn:
    """Runs the command in the sandbox, and exits with its status."""
    global libc
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        apart(order, command)
    except (Refused, OSError) as error:
        fail(error)


def fail(error: Exception) -> NoReturn:
    """Reports the failed measure and exits with 126."""
    os.write(2, f"this node cannot confine the tool: {error}\n".encode())
    os._exit(126)


def apart(order: Sandbox, command: list[str]) -> NoReturn:
    """Enters the namespaces and runs the command in them; raises Refused or OSError before its first process starts."""
    for folder in order["groups"]:
        write(f"{folder}/cgroup.procs", "0")
    set_limits(order)
    user = FIRST_USER + os.getpid()
    is_root = os.geteuid() == 0 and libc.unshare(APART) == 0
    if not is_root:
        enter_user_namespace()
    libc.unshare(CLONE_NEWCGROUP)
    # The first process in the new namespace. When it exits, the kernel kills all the others.
    pid = os.fork()
    if pid:
        libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        for number in (0, 1, 2):
            os.close(number)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
    try:
        libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        libc.sethostname(b"tool", 4)
        new_root(order)
        set_user(order, user if is_root else None)
        libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        # A huge page stays in memory as a whole even when all but 4 KB of it are unmapped, and the rest isn't
        # charged to any process.
        call("prctl", PR_SET_THP_DISABLE, 1, 0, 0, 0)
        hide_process_files()
        filter_tool()
        os.chdir("/tmp")
        os.execve(command[0], command, order["env"])
    except (Refused, OSError) as error:
        fail(error)


def enter_user_namespace() -> None:
    """Enters a user namespace, which owns the other namespaces if we lack root privileges. In it, the current
    user has the id 65534.
    """
    user, group = os.geteuid(), os.getegid()
    call("unshare", APART | CLONE_NEWUSER)
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{NOBODY} {user} 1")
    write("/proc/self/gid_map", f"{NOBODY} {group} 1")


def write(path: str, text: str) -> None:
    """Replaces the content of a file; raises OSError."""
    with open(path, "w") as file:
        file.write(text)


def set_limits(order: Sandbox) -> None:
    """Sets the limits that an unprivileged process can set; the process limit is set along with the user."""
    for limit, most in (
        # Not 0: the kernel would still start the program that core_pattern names.
        (resource.RLIMIT_CORE, 1),
        (resource.RLIMIT_DATA, order["data_mb"] * MB),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_SIGPENDING, MAX_PENDING_SIGNALS),
        (resource.RLIMIT_CPU, order["cpu_s"]),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        lower(limit, most)
    os.nice(order["nice"])
    try:
        # If the scheduler groups by session, the nice value counts only within the group.
        write("/proc/self/autogroup", str(order["nice"]))
    except OSError:
        pass
    allowed = sorted(os.sched_getaffinity(0))
    if order["cpus"] < len(allowed):
        first = order["first_cpu"] % len(allowed)
        os.sched_setaffinity(0, (allowed + allowed)[first : first + order["cpus"]])
    try:
        write("/proc/self/oom_score_adj", OOM_SCORE)
    except OSError:
        pass


def lower(limit: int, most: int) -> None:
    """Sets both limits to `most`, in the limit's unit, or to the hard limit if that is lower."""
    _, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(limit, (most, most))


def new_root(order: Sandbox) -> None:
    """Mounts the sandbox's root and makes it this process's root; raises Refused or OSError."""
    root = order["root"]
    # Another user must be able to read the folders of the root, whatever this process's umask is.
    os.umask(0o022)
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755,nr_inodes=4k,huge=never")
    for path in SYSTEM:
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
        elif os.path.isdir(path):
            bind(path, root + path)
    for path in SYSTEM_FILES:
        if os.path.exists(path):
            bind(os.path.realpath(path), root + path)
    for path, text in OWN_FILES.items():
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        write(root + path, text)
    os.mkdir(f"{root}/dev")
    for name in DEVICES:
        bind(f"/dev/{name}", f"{root}/dev/{name}", is_device=True)
    with open(f"{root}/dev/zero", "w") as zero:
        zero.truncate(ZERO_BYTES)
    for name, target in {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        os.symlink(f"/proc/self/{target}", f"{root}/dev/{name}")
    os.mkdir(f"{root}/tmp")
    options = f"size={order['temporary_mb']}m,mode=1777,nr_inodes=20k,huge=never"
    mount("tmpfs", f"{root}/tmp", "tmpfs", MS_NOSUID | MS_NODEV, options)
    # One quota for all files that the tool writes. The link is relative, because it is also followed from
    # outside the root.
    os.symlink("../tmp", f"{root}/dev/shm")
    # The interpreter may be under this machine's /tmp or /dev/shm.
    for source, target in order["mounts"]:
        bind(source, root + target)
    os.mkdir(f"{root}/proc")
    # A container that runs the node may cover parts of its own /proc; no other /proc can then be mounted.
    # Read-only, because a process could otherwise lower its OOM score.
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    libc.mount(b"proc", f"{root}/proc".encode(), b"proc", ctypes.c_ulong(flags), None)
    for name in READABLE_FILES:
        # A bind mount is still the same file, so the rules in hide_process_files apply to it.
        if os.path.exists(f"{root}/proc/{name}"):
            mount(f"{root}/proc/{name}", f"{root}/proc/{name}", None, MS_BIND)
    os.chdir(root)
    call("syscall", PIVOT_ROOT, b".", b".")
    call("umount2", b".", MNT_DETACH)
    os.chdir("/")
    set_mount("/", 0, MOUNT_ATTR_RDONLY)


def hide_process_files() -> None:
    """Blocks opening the other files of processes in /proc; their folders and links stay accessible.

    The kernel writes the whole content of such a file into memory that stays allocated while the file is
    open. Some have a line for each file that an epoll instance watches, so a hundred open files can take
    gigabytes that aren't charged to any process.
    """
    # Landlock's first version never allows renaming files from one folder to another.
    if libc.syscall(LANDLOCK_CREATE, None, 0, 1) < 2:
        return
    rights = struct.pack("Q", READ_FILE | REFER)
    rules = call("syscall", LANDLOCK_CREATE, rights, len(rights), 0)
    folders = [entry.path for entry in os.scandir("/") if entry.name != "proc" and not entry.is_symlink()]
    for path in [*folders, *[f"/proc/{name}" for name in READABLE_FILES]]:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        allowed = READ_FILE | REFER if os.path.isdir(path) else READ_FILE
        call("syscall", LANDLOCK_ADD, rules, 1, struct.pack("=Qi", allowed, place), 0)
        os.close(place)
    call("syscall", LANDLOCK_RESTRICT, rules, 0)
    os.close(rules)


def bind(source: str, target: str, is_device: bool = False) -> None:
    """Mounts a file or folder read-only, with everything below it."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(source, target, None, MS_BIND | MS_REC)
    if not is_device:
        set_mount(target, AT_RECURSIVE, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Calls mount(2); raises Refused."""
    texts = [text and os.fsencode(text) for text in (source, target, kind, options)]
    if libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3]) < 0:
        raise Refused(f"mount of {os.path.basename(target)}: {os.strerror(ctypes.get_errno())}")


def set_mount(path: str, flags: int, attributes: int) -> None:
    """Adds attributes to a mount; raises Refused."""
    given = struct.pack("QQQQ", attributes, 0, 0, 0)
    call("syscall", MOUNT_SETATTR, AT_FDCWD, os.fsencode(path), flags, given, len(given))


def set_user(order: Sandbox, user: int | None) -> None:
    """Permanently drops all privileges, even for programs that would restore them."""
    number = 0
    while libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
        number += 1
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    lower(resource.RLIMIT_FSIZE, order["temporary_mb"] * MB)
    resource.setrlimit(resource.RLIMIT_NPROC, (order["processes"], order["processes"]))
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header = struct.pack("II", 0x20080522, 0)
    call("syscall", CAPSET, header, struct.pack("6I", *[0] * 6))
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
