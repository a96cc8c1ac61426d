import { readdir, readFile, readlink } from 'node:fs/promises'
import { folderOf, readStatus } from '../../platform/processes/process-tree.ts'

const EPOLL = 'anon_inode:[eventpoll]'
const SOCKET = 'socket:'

/** The kernel holds these for the open descriptors of processes, in addition to the files themselves. */
export interface DescriptorCounts {
  /** Descriptors that are watched by epoll; counted until they exceed the limit. */
  watches: number
  /** Descriptors that were sent to a socket and not received yet. No process has them open. */
  inFlight: number
  /** True when the node may not read the table of a process. */
  isHidden: boolean
  /** True when a process had ended before its table was read: another one may hold what it held. */
  isMoving: boolean
}

/** Counts in the tables of these processes, which their threads share (call_filter.py). */
export async function countDescriptors(
  pids: readonly number[],
  maxWatches: number,
): Promise<DescriptorCounts> {
  const counts: DescriptorCounts = { watches: 0, inFlight: 0, isHidden: false, isMoving: false }
  for (const pid of pids) {
    const home = await folderOf(pid, await readStatus(`/proc/${pid}`))
    const folder = `${home}/fd`
    const fds = await readdir(folder).catch(async (err: NodeJS.ErrnoException) => {
      // A child that has ended and is not waited for belongs to root as well. It holds no memory and no descriptors.
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
