import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { runProgram } from '../platform/processes/run-program.ts'

/** Used in place of a status: the platform has closed the connection, or the driver has after the phase. */
export const CUT = 0
export const HELD = 1

/** Opens connections and holds them without sending. */
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

/** Returns a table with a column that repeats one text. */
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
