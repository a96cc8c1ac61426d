import { readFile, readlink, stat, statfs } from 'node:fs/promises'
import { privateMb } from '../../platform/processes/memory-watch.ts'

const MB = 1024 * 1024
/** The kernel's default, for machines that don't expose their setting. */
const DEFAULT_BUFFER_BYTES = 212_992
/** A socket accepts one more message while its buffer isn't full, and that message may be as large as the buffer. */
const BUFFERS_PER_SOCKET = 2

let bufferBytes: Promise<number> | undefined

/**
 * Returns the memory of a sandbox in MB: its processes, the files in its `/tmp`, and its sockets. Each socket counts as
 * its maximum size, because the kernel doesn't report the usage of Unix sockets. `outer` is the process that created
 * the namespaces.
 */
export async function sandboxMb(outer: number, pids: readonly number[]): Promise<number> {
  const parts = await Promise.all([privateMb(pids), temporaryMb(outer), socketsMb(outer)])
  return parts.reduce((sum, mb) => sum + mb, 0)
}

/** Returns the size of the files in `/tmp`, including deleted but open ones; 0 before the sandbox has its root. */
async function temporaryMb(outer: number): Promise<number> {
  try {
    const root = `/proc/${outer}/root`
    const [own, its] = await Promise.all([stat('/'), stat(root)])
    if (own.dev === its.dev) return 0
    const { blocks, bfree, bsize } = await statfs(`${root}/tmp`)
    return ((blocks - bfree) * bsize) / MB
  } catch {
    return 0
  }
}

/** Includes sockets that no process holds open anymore: their data may be waiting at the peer. */
async function socketsMb(outer: number): Promise<number> {
  try {
    const [own, its] = await Promise.all(['self', outer].map((pid) => readlink(`/proc/${pid}/ns/net`)))
    if (own === its) return 0
    const text = await readFile(`/proc/${outer}/net/sockstat`, 'utf8')
    const sockets = Number(/sockets: used (\d+)/.exec(text)?.[1] ?? 0)
    return (sockets * BUFFERS_PER_SOCKET * (await defaultBuffer())) / MB
  } catch {
    return 0
  }
}

function defaultBuffer(): Promise<number> {
  bufferBytes ??= readFile('/proc/sys/net/core/wmem_default', 'utf8').then(
    (text) => Number(text) || DEFAULT_BUFFER_BYTES,
    () => DEFAULT_BUFFER_BYTES,
  )
  return bufferBytes
}
