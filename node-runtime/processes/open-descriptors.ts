import { readdir, readFile, readlink } from 'node:fs/promises'
import { folderOf, readStatus } from '../../platform/processes/process-tree.ts'

const EPOLL = 'anon_inode:[eventpoll]'
const SOCKET = 'socket:'

/** Kernel objects for the open descriptors of processes, in addition to the files themselves. */
export interface DescriptorCounts {
  /** Descriptors watched with epoll; counted until they exceed the limit. */
  watches: number
  /** Descriptors sent to a socket but not received yet. No process has them open. */
  inFlight: number
  /** True if the node is not allowed to read a process's table. */
  isHidden: boolean
  /** True if a process ended before its table was read: another process may have its descriptors. */
  isMoving: boolean
}

/** Counts the descriptors in these processes' tables, which their threads share (call_filter.py). */
export async function countDescriptors(
  pids: readonly number[],
  maxWatches: number,
): Promise<DescriptorCounts> {
  const counts: DescriptorCounts = { watches: 0, inFlight: 0, isHidden: false, isMoving: false }
  for (const pid of pids) {
    const home = await folderOf(pid, await readStatus(`/proc/${pid}`))
    const folder = `${home}/fd`
    const fds = await readdir(folder).catch(async (err: NodeJS.ErrnoException) => {
      // A zombie's folder also belongs to root, but a zombie has no memory and no descriptors.
      const isRefused = err.code === 'EACCES' || err.code === 'EPERM'
      if (!isRefused) counts.isMoving = true
      else if (/^VmSize:/m.test(await readStatus(home))) counts.isHidden = true
      return []
    })
    const targets = await Promise.all(fds.map((fd) => readlink(`${folder}/${fd}`).catch(() => '')))
    for (const [at, target] of targets.entries()) {
      if (target !== EPOLL && !target.startsWith(SOCKET)) continue
      const info = await readFile(`${folder}info/${fds[at]}`, 'latin1').catch(() => '')
      if (target === EPOLL) counts.watches += info.split('tfd:').length - 1
      else counts.inFlight += Number(/^scm_fds:\s+(\d+)/m.exec(info)?.[1] ?? 0)
      if (counts.watches > maxWatches) return counts
    }
  }
  return counts
}
