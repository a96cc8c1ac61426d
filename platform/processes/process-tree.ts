import { readdir, readFile } from 'node:fs/promises'

/**
 * Returns a process and all its descendants that Linux reports. `everyThread` also finds processes that threads other
 * than the first forked, at the cost of one read per thread.
 */
export async function treeOf(pid: number, { everyThread = false } = {}): Promise<number[]> {
  const threads = everyThread ? await threadsOf(pid) : [String(pid)]
  const lists = await Promise.all(
    threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/children`, 'utf8').catch(() => '')),
  )
  const children = lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number))
  const below = await Promise.all(children.map((child) => treeOf(child, { everyThread })))
  return [pid, ...below.flat()]
}

/** Returns the thread ids of a process; empty once it is gone. */
export const threadsOf = (pid: number): Promise<string[]> => readdir(`/proc/${pid}/task`).catch(() => [])

/**
 * Returns a process's folder in `/proc`. If its first thread has ended, its files are under another of its threads.
 * `status` is the content of the process's own `status` file.
 */
export async function folderOf(pid: number, status: string): Promise<string> {
  const other = /^State:\s+Z/m.test(status)
    ? (await threadsOf(pid)).find((thread) => thread !== String(pid))
    : undefined
  return other === undefined ? `/proc/${pid}` : `/proc/${pid}/task/${other}`
}

/** Returns the `status` of a process or thread; empty once it is gone. */
export const readStatus = (folder: string): Promise<string> =>
  readFile(`${folder}/status`, 'utf8').catch(() => '')

/** Returns the path of a process's file, which may belong to one of its threads. */
export async function processFile(pid: number, name: string): Promise<string> {
  return `${await folderOf(pid, await readStatus(`/proc/${pid}`))}/${name}`
}
