/** A program that tries to use memory or CPU beyond its tool's limits. */
export interface Attack {
  name: string
  code: string
}

/** An attack that the kernel blocks, with its complete output. */
export interface RefusedAttack extends Attack {
  refused: string
}

/** Makes system calls directly, by their numbers on x86_64 or aarch64. */
const CALLS = `
import ctypes, errno, mmap, os, platform, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.syscall.argtypes = [ctypes.c_long] * 7
def call(x86, arm, *arguments):
    number = x86 if platform.machine() == "x86_64" else arm
    ctypes.set_errno(0)
    result = libc.syscall(number, *(list(arguments) + [0] * 6)[:6])
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "done"
def attempt(work):
    try:
        work()
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]
MB, X32 = 1 << 20, 0x40000000
`

/** Waits for the node's check; the line that follows is printed only if the check does not end the run. */
const HOLD = `
time.sleep(3)
print("held")
`

export const REFUSED_ATTACKS: readonly RefusedAttack[] = [
  {
    name: 'memory files of memfd_create and memfd_secret',
    code: `
print(attempt(lambda: os.memfd_create("x")), call(319, 279, 0, 0), call(447, 447, 0))`,
    refused: 'EPERM EPERM EPERM\n',
  },
  {
    name: 'System V shared memory, queues and semaphores, and POSIX queues',
    code: `
print(call(29, 194, 0, 100 * MB, 0o1600), call(68, 186, 0, 0o1600), call(64, 190, 0, 32000, 0o1600))
libc.mq_open.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
ctypes.set_errno(0)
print(libc.mq_open(b"/x", os.O_CREAT | os.O_RDWR, 0o600, None), errno.errorcode[ctypes.get_errno()])`,
    refused: 'EPERM EPERM EPERM\n-1 EPERM\n',
  },
  {
    name: 'shared anonymous mappings, including /dev/zero, and huge pages',
    code: `
print(attempt(lambda: mmap.mmap(-1, MB)))
print(attempt(lambda: mmap.mmap(-1, MB, flags=3 | mmap.MAP_ANONYMOUS)))
print(attempt(lambda: mmap.mmap(-1, 2 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)))
print(attempt(lambda: open("/dev/zero", "r+b")))
with mmap.mmap(-1, MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as own, open("/tmp/f", "w+b") as file:
    file.truncate(MB)
    with mmap.mmap(file.fileno(), MB) as shared:
        own[0] = shared[0] = 1
print(open("/dev/zero", "rb").read(3))`,
    refused: "EPERM\nEPERM\nEPERM\nEACCES\nb'\\x00\\x00\\x00'\n",
  },
  {
    name: 'sockets from other address families, and socket pairs',
    code: `
for family in (2, 10, 1, 16):
    print(attempt(lambda: socket.socket(family, socket.SOCK_DGRAM).close()), end=" ")
print(attempt(lambda: socket.socketpair()))
names = {attempt(lambda: socket.socket(family, kind)) for family in range(64) if family not in (1, 2, 10, 16) for kind in (1, 2, 3, 5)}
print(names, call(41, 198, 40 | 1 << 32, 1, 0), call(53, 199, 40, 1, 0))`,
    refused: "done done done done done\n{'EPERM'} EPERM EPERM\n",
  },
  {
    name: 'larger socket and pipe buffers',
    code: `
import fcntl
a, b = socket.socketpair()
before = a.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), b.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
for option in (7, 8, 32, 33):
    for one in (a, b):
        attempt(lambda: one.setsockopt(socket.SOL_SOCKET, option, 4 * MB))
print((a.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), b.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)) == before)
a.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
print(a.getsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED), attempt(lambda: fcntl.fcntl(os.pipe()[0], 1031, MB)))`,
    refused: 'True\n1 EPERM\n',
  },
  {
    name: 'descriptor tables that are shared by processes, private to a thread, or not readable by the node',
    code: `
FILES, THREAD, VM, SIGHAND = 0x400, 0x10000, 0x100, 0x800
print(*(call(56, 220, flags, 0, 0, 0, 0) for flags in (FILES | 17, FILES | VM, THREAD | SIGHAND | VM)), call(272, 97, FILES), flush=True)
print(*(call(436, 436, 5000, 5000, flags) for flags in (2, 6, 4, 0)), flush=True)
print(call(157, 167, 4, 0), call(157, 167, 3), flush=True)
thread = threading.Thread(target=lambda: print("thread", flush=True))
thread.start()
thread.join()
if os.fork() == 0: os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))`,
    refused: 'EPERM EPERM EPERM EPERM\nEINVAL EINVAL done done\nEINVAL done\nthread\n0\n',
  },
  {
    name: 'locks that no process owns',
    code: `
import fcntl, struct
file, lock = os.open("/tmp/f", os.O_CREAT | os.O_RDWR), struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2, 1, 0)
print(*(attempt(lambda: fcntl.fcntl(file, command, lock)) for command in (37, 38, fcntl.F_SETLK, fcntl.F_SETLKW)))`,
    refused: 'EPERM EPERM done done\n',
  },
  {
    name: 'access control lists and extended attributes',
    code: `
import shutil, struct
open("/tmp/f", "wb").write(b"x")
file = os.open("/tmp/f", os.O_RDWR)
users = [(1, 7, -1), *[(2, 7, os.getuid())] * 8000, (4, 7, -1), (16, 7, -1), (32, 7, -1)]
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *one) for one in users)
for name, value in (("system.posix_acl_access", acl), ("user.note", b"x")):
    print(attempt(lambda: os.setxattr("/tmp/f", name, value)), attempt(lambda: os.setxattr(file, name, value)), attempt(lambda: os.setxattr("/tmp/f", name, value, follow_symlinks=False)))
shutil.copy2("/tmp/f", "/tmp/g")
print(os.stat("/tmp/g").st_size)`,
    refused: 'ENOTSUP ENOTSUP ENOTSUP\nENOTSUP ENOTSUP ENOTSUP\n1\n',
  },
  {
    name: 'pages that stay in a pipe after their mapping or file is gone',
    code: `
import fcntl
r, w = os.pipe()
open("/tmp/f", "wb").write(bytes(MB))
file = os.open("/tmp/f", os.O_RDONLY)
a, b = socket.socketpair()
print(attempt(lambda: os.splice(file, w, MB)), attempt(lambda: os.sendfile(a.fileno(), file, 0, MB)), call(278, 75, w, 0, 0, 0), call(276, 77, r, w, 1, 0))
import shutil
shutil.copyfile("/tmp/f", "/tmp/g")
print(os.stat("/tmp/g").st_size)`,
    refused: 'EINVAL EINVAL EINVAL EINVAL\n1048576\n',
  },
  {
    name: 'kernel queues for file watches and asynchronous reads, rulesets, rings and hash tables',
    code: `
print(call(253, 26, 0), call(294, 26, 0), call(300, 262, 0x200, 0), call(206, 0, 1000, id(MB)), call(444, 444, 0, 0, 1))
print(call(425, 425, 8, 0), call(323, 282, 1), call(321, 280, 0), call(248, 217, 0), call(157, 167, 78, 1, 1 << 20), call(157, 167, 62, 1, 0, 0))
print(call(463, 463), call(500, 500))`,
    refused: 'EPERM EPERM EPERM EPERM EPERM\nEPERM EPERM EPERM EPERM EINVAL EINVAL\nENOSYS ENOSYS\n',
  },
  {
    name: 'a disk queue flooded with syncs, and the core dump handler',
    code: `
import resource
library = os.open(os.__file__, os.O_RDONLY)
results = [call(162, 81), call(306, 267, library), call(74, 82, library), call(75, 83, library), call(277, 84, library, 0, 0, 7)]
# None of them reaches the kernel, which would know that this is no file.
results += [call(306, 267, 99), call(74, 82, 99), call(75, 83, 99), call(277, 84, 99, 0, 0, 7)]
print(set(results), resource.getrlimit(resource.RLIMIT_CORE))
with open("/tmp/f", "w") as file: print(file.write("kept"), file.flush(), os.fsync(file.fileno()), open("/tmp/f").read())`,
    refused: "{'done'} (1, 1)\n4 None None kept\n",
  },
  {
    name: 'the same system calls by their numbers in another ABI',
    code: `
print(call(X32 + 319, X32 + 279, 0, 0), call(X32 + 41, X32 + 198, 40, 1, 0), call(X32 + 203, X32 + 122, 0, 0, 0))`,
    refused: 'EPERM EPERM EPERM\n',
  },
  {
    name: 'huge pages that a program unmaps except for one small page',
    code: `
import resource
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
for _ in range(40):
    place = libc.mmap(None, 4 * MB, 3, 0x22, -1, 0)
    start = (place + 2 * MB - 1) & -(2 * MB)
    libc.madvise(start, 2 * MB, 14)
    ctypes.c_char.from_address(start).value = b"x"
print(peak() - before < 20, call(157, 167, 41, 0, 0, 0, 0))`,
    refused: 'True EINVAL\n',
  },
  {
    name: "the text that the kernel generates about a process's open files",
    code: `
place = os.open("/proc/self", os.O_PATH)
ways = ["/proc/self/fdinfo/0", "/proc/1/fdinfo/0", "/proc/thread-self/fdinfo/0", "/proc/1/task/1/fdinfo/0", "/proc/net/../fdinfo/0"]
def attempts(): return {attempt(lambda: open(way)) for way in ways} | {attempt(lambda: os.open("fdinfo/0", os.O_RDONLY, dir_fd=place))}
print(attempts(), sorted(os.listdir("/proc/self/fdinfo"))[:2], flush=True)
if os.fork() == 0:
    ways.append(f"/proc/{os.getpid()}/fdinfo/0")
    os.write(1, f"{attempts()}\\n".encode())
    os._exit(0)
os.wait()
print([open(f"/proc/{name}").read(4) for name in ("self/stat", "self/status", "meminfo", "sys/kernel/ostype")])
os.mkdir("/tmp/d")
with open("/tmp/f", "w") as file: file.write("moved")
os.rename("/tmp/f", "/tmp/d/g")
print(open(f"/proc/self/fd/{os.open('/tmp/d/g', os.O_RDONLY)}").read())`,
    refused: "{'EACCES'} ['0', '1']\n{'EACCES'}\n['1 (p', 'Name', 'MemT', 'Linu']\nmoved\n",
  },
  {
    name: 'filters that the kernel compiles into memory shared by the whole machine',
    code: `
steps = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFF))
program = struct.pack("HxxxxxxP", 1, ctypes.addressof(steps))
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(*(attempt(lambda: one.setsockopt(socket.SOL_SOCKET, option, program)) for option in (26, 50, 51, 52)))
print(call(317, 277, 1, 8, 0), call(317, 277, 1, 0, 0), call(157, 167, 22, 2, 0), call(157, 167, 22, 1))
one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
print(one.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR))`,
    refused: 'EPERM EPERM EPERM EPERM\nEPERM EPERM EINVAL EINVAL\n1\n',
  },
  {
    name: 'other CPUs, shorter time slices and sessions with their own CPU share',
    code: `
before = os.sched_getaffinity(0)
print(attempt(lambda: os.sched_setaffinity(0, range(64))), call(314, 274, 0, 0, 0), attempt(os.setsid), attempt(lambda: os.nice(-1)))
print(len(before), os.sched_getaffinity(0) == before)
print(attempt(lambda: open("/proc/self/autogroup", "w")), attempt(lambda: open("/proc/self/oom_score_adj", "w")))`,
    refused: 'EPERM EPERM EPERM EPERM\n1 True\nEROFS EROFS\n',
  },
].map((attack) => ({ ...attack, code: CALLS + attack.code }))

export const HOLDING_ATTACKS: readonly Attack[] = [
  {
    name: 'socket buffers of many processes',
    code: `
for _ in range(24):
    if os.fork() == 0:
        kept = []
        try:
            while True:
                pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
                kept.append(pair)
                for one in pair:
                    one.setblocking(False)
                    try:
                        while True: one.send(bytes(32768))
                    except BlockingIOError: pass
        except OSError: pass
        time.sleep(5)
        os._exit(0)`,
  },
  {
    name: 'messages that exceed the socket buffers',
    code: `
for _ in range(14):
    if os.fork() == 0:
        kept = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(50)]
        for one in (one for pair in kept for one in pair):
            one.setblocking(False)
            try:
                while True: one.send(bytes(200000))
            except BlockingIOError: pass
        time.sleep(5)
        os._exit(0)`,
  },
  {
    name: 'data in closed sockets that are waiting to be accepted',
    code: `
door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
door.bind("\\0door")
door.listen(4096)
for _ in range(4000):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.setblocking(False)
    try:
        client.connect("\\0door")
        while True: client.send(bytes(65536))
    except BlockingIOError: pass
    client.close()`,
  },
  {
    name: 'page tables of empty mappings',
    code: `
size = 1 << 39
place = libc.mmap(None, size, 1, 0x4022, -1, 0)
memoryview((ctypes.c_ubyte * size).from_address(place))[:: 2 * MB].tobytes()`,
  },
  {
    name: 'children of a thread other than the first',
    code: `
def work():
    for _ in range(6):
        if os.fork() == 0:
            kept = bytearray(os.urandom(1)) * (130 * MB)
            time.sleep(20)
            os._exit(0)
    time.sleep(60)
threading.Thread(target=work, daemon=True).start()
time.sleep(2)`,
  },
  {
    name: 'threads that outlive the first thread of their process',
    code: `
def work():
    time.sleep(0.3)
    kept = bytearray(os.urandom(1)) * (400 * MB)
    time.sleep(30)
for _ in range(2):
    if os.fork() == 0:
        threading.Thread(target=work).start()
        call(60, 93, 0)
time.sleep(20)`,
  },
  {
    name: 'memory, and deleted but open files in /tmp',
    code: `
kept = bytearray(os.urandom(1)) * (470 * MB)
file = open("/tmp/x", "wb", buffering=0)
os.unlink("/tmp/x")
for _ in range(60): file.write(bytes(MB))`,
  },
].map((attack) => ({ ...attack, code: CALLS + attack.code + HOLD }))

/** Sends descriptors to a socket that no process reads, and closes them. */
export const IN_FLIGHT_ATTACK = `
import select, socket, time
a, b = socket.socketpair()
for _ in range(40):
    one = select.epoll()
    socket.send_fds(a, [b"x"], [one.fileno()])
    one.close()
time.sleep(30)`

/** Watches the same few descriptors under many numbers, with many epoll instances. */
export const EPOLL_ATTACK = `
import os, select, time
for _ in range(8):
    if os.fork() == 0:
        watchers = [select.epoll() for _ in range(30)]
        files = [os.eventfd(0) for _ in range(30)]
        for file in files:
            for number in range(80, 120):
                os.dup2(file, number)
                for one in watchers: one.register(number)
                os.close(number)
        time.sleep(30)
        os._exit(0)
time.sleep(60)`

/** Creates 60,000 mappings, whose records take 13 MB of kernel memory in each process. */
const MANY_MAPPINGS = `
import os, time
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
base = libc.mmap(None, 60000 * 4096, 0, 0x4022, -1, 0)
for page in range(base, base + 60000 * 4096, 8192):
    libc.mprotect(page, 4096, 3)`

/** Uses more than 256 MB within the first second, and then holds it. */
export const EARLY_MAPPINGS_ATTACK = `${MANY_MAPPINGS}
for _ in range(28):
    if os.fork() == 0: time.sleep(20); os._exit(0)
time.sleep(20)`

/** Splits a mapping into kernel records that every forked process copies. */
export const MAPPINGS_ATTACK = `${MANY_MAPPINGS}
    ctypes.c_char.from_address(page).value = b"x"
    libc.madvise(page, 4096, 4)
while os.fork() == 0: pass
time.sleep(60)`
