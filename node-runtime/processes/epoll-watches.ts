import { readdir, readFile, readlink } from 'node:fs/promises'
import { processFile } from '../../platform/processes/process-tree.ts'

/**
 * The kernel allows 4 % of the memory for the watches of all processes of one user, about 250,000 for a gigabyte. On a
 * node without root's privileges that user is the node's own, and its processes end when they may not watch any more.
 */
const MAX_WATCHES = 50_000

/** Describes the excess when these processes watch more descriptors by epoll than any program does. */
export async function excessiveWatches(pids: readonly number[]): Promise<string | undefined> {
  let watches = 0
  for (const pid of pids) {
    const folder = await processFile(pid, 'fd')
    const fds = await readdir(folder).catch(() => [])
    const targets = await Promise.all(fds.map((fd) => readlink(`${folder}/${fd}`).catch(() => '')))
    for (const [at, target] of targets.entries()) {
      if (target !== 'anon_inode:[eventpoll]') continue
      const info = await readFile(`${folder}info/${fds[at]}`, 'latin1').catch(() => '')
      watches += info.split('tfd:').length - 1
      if (watches > MAX_WATCHES)
        return `it watched more than ${MAX_WATCHES.toLocaleString('en')} descriptors by epoll`
    }
  }
  return undefined
}
