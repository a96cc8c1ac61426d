import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { runProgram } from '../platform/processes/run-program.ts'

/** Used instead of a status: the platform closed the connection (`CUT`), or the driver did after the phase (`HELD`). */
export const CUT = 0
export const HELD = 1

/** Opens connections and keeps them open without sending. */
export function openSockets(baseUrl: string) {
  const { hostname, port } = new URL(baseUrl)
  const open = new Set<Socket>()
  const begin = (head: string[]): Socket => {
    const socket = connect(Number(port), hostname).on('error', () => {})
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    socket.write(`${[...head, 'host: x'].join('\r\n')}\r\n\r\n`)
    return socket
  }
  const ended = new WeakSet<Socket>()
  const closed = (socket: Socket): Promise<number> =>
    new Promise((resolve) => socket.once('close', () => resolve(ended.has(socket) ? HELD : CUT)))
  const repeat = (head: string[], times: number): Socket => {
    const socket = begin(head)
    for (let i = 1; i < times; i++) socket.write(`${[...head, 'host: x'].join('\r\n')}\r\n\r\n`)
    return socket
  }
  return {
    hold(head: string[], body: string): Promise<number> {
      const socket = begin(head)
      socket.write(body)
      const answered = new Promise<number>((resolve) => {
        socket.once('data', (data: Buffer) => resolve(Number(data.toString().slice(9, 12))))
      })
      return Promise.race([answered, closed(socket)])
    },
    unread(head: string[], times: number): Promise<number> {
      return closed(repeat(head, times).pause())
    },
    read(head: string[], times: number): Promise<number> {
      return closed(repeat([...head], times).resume())
    },
    async end() {
      for (const socket of open) {
        ended.add(socket)
        socket.destroy()
      }
    },
  }
}

/** Returns a table with a column that repeats one string. */
export async function compressedTable(python: string): Promise<Buffer> {
  const program = [
    'import sys, io',
    'import pyarrow as pa, pyarrow.parquet as pq',
    'out = io.BytesIO()',
    'with pq.ParquetWriter(out, pa.schema([("a", pa.string()), ("b", pa.float64())]), compression="zstd") as writer:',
    '    part = pa.table({"a": ["x" * 400] * 100000, "b": [1.0] * 100000})',
    '    for _ in range(40): writer.write_table(part)',
    'sys.stdout.buffer.write(out.getvalue())',
  ].join('\n')
  const { stdout } = await runProgram(python, ['-c', program], {
    encoding: 'buffer',
    maxBuffer: 64 << 20,
  })
  return stdout
}

/** Returns a variable of another process's environment. */
export const environmentOf = (pid: number, name: string): string | undefined =>
  readFileSync(`/proc/${pid}/environ`, 'utf8')
    .split('\0')
    .find((line) => line.startsWith(`${name}=`))
    ?.slice(name.length + 1)

/** Programs for `run_python` that try to use memory or CPU beyond their limits, by the resource they attack. */
export const TOOL_ATTACKS: readonly (readonly [name: string, code: string])[] = [
  [
    'memory files',
    `import os, time
for _ in range(20):
    file = os.memfd_create("x")
    for _ in range(60): os.write(file, bytes(1 << 20))
time.sleep(4)`,
  ],
  [
    'System V memory',
    `import ctypes, time
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for _ in range(12):
    at = libc.shmat(libc.shmget(0, ctypes.c_size_t(100 << 20), 0o1600), None, 0)
    if at and at != ctypes.c_void_p(-1).value: ctypes.memset(at, 1, 100 << 20)
time.sleep(4)`,
  ],
  [
    'socket buffers',
    `import os, socket, time
for _ in range(10):
    if os.fork() == 0:
        kept = []
        try:
            for _ in range(60):
                pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
                kept.append(pair)
                for one in pair:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                    one.setblocking(False)
                    try:
                        while True: one.send(bytes(65536))
                    except BlockingIOError: pass
        except OSError: pass
        time.sleep(4)
        os._exit(0)
time.sleep(4)`,
  ],
  [
    'every processor, by 60 processes in separate sessions',
    `import os, time
for _ in range(60):
    if os.fork() == 0:
        for work in (lambda: os.sched_setaffinity(0, range(os.cpu_count())), os.setsid):
            try: work()
            except OSError: pass
        end = time.monotonic() + 4
        while time.monotonic() < end: pass
        os._exit(0)
time.sleep(4)`,
  ],
]
