"""Builds and installs the system call filters (seccomp) of confined processes.

A refused call fails with an error instead of ending the process, so that libraries fall back to other
means. Both filters refuse the call numbers of other ABIs (32-bit, x32), which would bypass them.
"""

from __future__ import annotations

import ctypes
import os
import struct

# Constant for the type checker, because loading `typing` takes longer than this program runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeVar

    # A call's number; None if a machine has no such call.
    Number = TypeVar("Number", bound=int | None)

# One instruction of a filter: its code, how many steps to skip if true and if false, and its value.
Step = tuple[int, int, int, int]

MACHINE = os.uname().machine
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
PR_SET_SECCOMP = 22
EPERM, EINVAL, ENOSYS, EOPNOTSUPP = 1, 22, 38, 95
LOAD, JUMP_EQUAL, JUMP_ANY, JUMP_FROM, AND, RETURN = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
# The x32 call numbers begin here.
X32 = 0x40000000
# The first number that this table does not contain: for a tool, calls of later kernels do not exist.
FIRST_UNKNOWN = 463

# Calls that reach other parts of the kernel and that no tool needs, by machine.
REFUSED_CALLS = {
    "x86_64": """101 103 134 136 153 154 155 156 159 161 163 164 165 166 167 168 169 170 171 172 173 175 176 179
        212 227 246 248 249 250 272 298 303 304 305 308 310 311 312 313 320 321 323 425 426 427 428 429 430 431 432
        433 442""",
    "aarch64": """39 40 41 51 58 60 89 97 104 105 106 112 116 117 142 161 162 170 171 217 218 219 224 225 241 264
        265 266 268 270 271 272 273 280 282 294 425 426 427 428 429 430 431 432 433 442""",
}

# Calls whose memory or processor time the kernel charges to no process, with their numbers on x86_64 and
# aarch64. Instead of shared memory, tools can use files in /tmp, which has a quota.
UNCOUNTED_CALLS: dict[str, tuple[int, int | None]] = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    "io_setup": (206, 0),
    # A ruleset can hold hundreds of thousands of files.
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "seccomp": (317, 277),
    # The scheduler gives each session an equal share (autogroup), whatever its nice value.
    "setsid": (112, 157),
}

# Pages that these calls put into a pipe or socket stay in memory after their file or mapping is gone, even a
# huge page for a single byte. Files that do not support these calls return EINVAL, and programs then copy
# instead.
PINNING_CALLS = {
    "sendfile": (40, 71),
    "splice": (275, 76),
    "tee": (276, 77),
    "vmsplice": (278, 75),
}

# The kernel charges access lists to no process, and each may take 64 KB. Disks without attributes return
# EOPNOTSUPP, and programs that copy files then continue.
ATTRIBUTES = {"setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7)}

# Calls that make a disk write out its cache, which delays other programs on the machine. Numbers as above.
DISK_SYNCS = {"sync": (162, 81), "syncfs": (306, 267)}
# A tool can open the machine's program files, and each of these calls would flush their disk.
FILE_SYNCS = {"fsync": (74, 82), "fdatasync": (75, 83), "sync_file_range": (277, 84)}

# Calls that are filtered by an argument.
NUMBERS = {
    "mmap": (9, 222),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "setsockopt": (54, 208),
    "clone": (56, 220),
    "fcntl": (72, 25),
    "prctl": (157, 167),
    "clone3": (435, 435),
    "close_range": (436, 436),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
}

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_VSOCK = 1, 2, 10, 16, 40
TOOL_FAMILIES = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
SOL_SOCKET = 1
# SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE
BUFFER_OPTIONS = (7, 8, 32, 33)
# SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF. The kernel compiles
# filters into memory that all programs on the machine share. When it is full, no filter can be installed for
# another process.
FILTER_OPTIONS = (26, 50, 51, 52)
F_NOTIFY, F_SETPIPE_SZ = 1026, 1031
# Locks of open files belong to no process, so a node can't find out which run created them.
F_OFD_SETLK, F_OFD_SETLKW = 37, 38
# PR_SET_DUMPABLE hides what a process holds from a node without root privileges; PR_SCHED_CORE keeps other
# processes off a core; PR_FUTEX_HASH allocates up to 2 GB; PR_SET_THP_DISABLE would allow huge pages again
# (sandbox.py); PR_SET_SECCOMP adds filters (see FILTER_OPTIONS).
PRCTLS = (4, 62, 78, 41, PR_SET_SECCOMP)
MAP_SHARED, MAP_ANONYMOUS, MAP_HUGETLB = 1, 0x20, 0x40000
CLONE_FILES, CLONE_THREAD, CLOSE_RANGE_UNSHARE = 0x400, 0x10000, 2
NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000


def number_of(numbers: tuple[Number, Number]) -> Number:
    """Returns this machine's number out of those for x86_64 and aarch64."""
    return numbers[0 if MACHINE == "x86_64" else 1]


def argument(index: int) -> Step:
    """Loads the lower half of an argument, which is all that the kernel reads of an int."""
    return (LOAD, 0, 0, 16 + 8 * index)


def preamble(other_abi: int) -> list[Step]:
    """Loads the call's number, and refuses calls of other ABIs with `other_abi` or EPERM."""
    return [
        (LOAD, 0, 0, 4),
        (JUMP_EQUAL, 1, 0, AUDIT[MACHINE]),
        (RETURN, 0, 0, other_abi),
        (LOAD, 0, 0, 0),
        (JUMP_FROM, 0, 1, X32),
        (RETURN, 0, 0, ERROR | EPERM),
    ]


def refuse(numbers: Iterable[int], error: int) -> list[Step]:
    """Returns `error` instead of running the calls; 0 skips them and reports success."""
    return [step for number in numbers for step in ((JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, ERROR | error))]


def rule(name: str, steps: list[Step]) -> list[Step]:
    """Runs `steps` for this call only. They must end with a decision, because they replace the loaded number."""
    return [(JUMP_EQUAL, 0, len(steps), number_of(NUMBERS[name])), *steps]


def unless_any(index: int, allowed: tuple[int, ...], error: int) -> list[Step]:
    """Allows the call if the argument is in `allowed`, and returns `error` otherwise."""
    tests = [(JUMP_EQUAL, len(allowed) - nth, 0, value) for nth, value in enumerate(allowed)]
    return [argument(index), *tests, (RETURN, 0, 0, ERROR | error), (RETURN, 0, 0, ALLOW)]


def if_any(index: int, refused: tuple[int, ...], error: int) -> list[Step]:
    """Returns `error` if the argument is in `refused`; 0 skips the call and reports success."""
    tests = [(JUMP_EQUAL, len(refused) - nth, 0, value) for nth, value in enumerate(refused)]
    return [argument(index), *tests, (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERROR | error)]


def filter_tool() -> None:
    """Refuses calls that no tool needs, and those that use memory or processor time which the node can't
    count.

    `clone3` hides its flags from this filter, and libraries use `clone` if it does not exist. Raises
    OSError if the kernel refuses the filter.
    """
    refused = [int(number) for number in REFUSED_CALLS[MACHINE].split()]
    refused += [number for number in map(number_of, UNCOUNTED_CALLS.values()) if number is not None]
    mapping = [
        argument(3),
        (JUMP_ANY, 3, 0, MAP_HUGETLB),
        # Covers MAP_SHARED_VALIDATE too. These pages stay in memory after the process unmaps them.
        (AND, 0, 0, MAP_SHARED | MAP_ANONYMOUS),
        (JUMP_EQUAL, 1, 0, MAP_SHARED | MAP_ANONYMOUS),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, ERROR | EPERM),
    ]
    # Each process must have exactly one descriptor table. In a table that processes share, locks would
    # outlive their process, and a thread's separate table would hide what it holds.
    whole = CLONE_FILES | CLONE_THREAD
    cloning = [
        argument(0),
        (JUMP_ANY, 3, 0, NAMESPACES),
        (AND, 0, 0, whole),
        (JUMP_EQUAL, 2, 0, 0),
        (JUMP_EQUAL, 1, 0, whole),
        (RETURN, 0, 0, ERROR | EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    closing = [
        argument(2),
        (JUMP_ANY, 1, 0, CLOSE_RANGE_UNSHARE),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, ERROR | EINVAL),
    ]
    socket_option = [argument(1), (JUMP_EQUAL, 1, 0, SOL_SOCKET), (RETURN, 0, 0, ALLOW), argument(2)]
    install(
        [
            *preamble(KILL),
            (JUMP_FROM, 0, 1, FIRST_UNKNOWN),
            (RETURN, 0, 0, ERROR | ENOSYS),
            *refuse(refused, EPERM),
            *refuse(map(number_of, PINNING_CALLS.values()), EINVAL),
            *refuse(map(number_of, ATTRIBUTES.values()), EOPNOTSUPP),
            # All files that a tool can write are in memory, so it is correct to report success.
            *refuse(map(number_of, {**DISK_SYNCS, **FILE_SYNCS}.values()), 0),
            *refuse([number_of(NUMBERS["clone3"])], ENOSYS),
            *rule("socket", unless_any(0, TOOL_FAMILIES, EPERM)),
            *rule("socketpair", unless_any(0, TOOL_FAMILIES, EPERM)),
            # Buffers keep their default size. The kernel itself also silently caps sizes above its own limit.
            *rule(
                "setsockopt",
                [
                    *socket_option,
                    *refuse(FILTER_OPTIONS, EPERM),
                    *refuse(BUFFER_OPTIONS, 0),
                    (RETURN, 0, 0, ALLOW),
                ],
            ),
            *rule("fcntl", if_any(1, (F_NOTIFY, F_SETPIPE_SZ, F_OFD_SETLK, F_OFD_SETLKW), EPERM)),
            *rule("prctl", if_any(0, PRCTLS, EINVAL)),
            *rule("mmap", mapping),
            *rule("clone", cloning),
            *rule("close_range", closing),
            (RETURN, 0, 0, ALLOW),
        ]
    )


def filter_child() -> None:
    """Refuses AF_VSOCK, which network namespaces don't isolate; io_uring, which opens sockets by other means;
    and writing out whole disks. Trainers make their checkpoints durable with fsync, so that stays allowed.
    Raises OSError if the kernel refuses the filter.
    """
    rings = [number_of(NUMBERS[name]) for name in ("io_uring_setup", "io_uring_enter")]
    install(
        [
            *preamble(ERROR | EPERM),
            *refuse(rings, EPERM),
            *refuse(map(number_of, DISK_SYNCS.values()), EPERM),
            *rule("socket", if_any(0, (AF_VSOCK,), EPERM)),
            (RETURN, 0, 0, ALLOW),
        ]
    )


def install(steps: list[Step]) -> None:
    """Applies the filter to this process and everything that it starts. Needs no_new_privs.

    Raises OSError if the kernel refuses it.
    """
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, 2, program, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
