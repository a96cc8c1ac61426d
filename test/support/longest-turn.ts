/** A timer can't fire twice within a turn of the event loop, so this is also the shortest measurable turn. */
const TICK_MS = 1

/**
 * Returns the longest turn of the event loop while `work` ran, in milliseconds of this thread's CPU time. Unlike timer
 * delays, it doesn't grow with the load of other processes.
 */
export async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  let longest = 0
  let last = process.threadCpuUsage()
  const note = () => {
    const now = process.threadCpuUsage()
    longest = Math.max(longest, now.user + now.system - last.user - last.system)
    last = now
  }
  const ticks = setInterval(note, TICK_MS)
  try {
    await work()
    // The turn in which the work ended hasn't been recorded yet.
    await new Promise((resolve) => {
      setTimeout(resolve, TICK_MS + 1)
    })
  } finally {
    clearInterval(ticks)
  }
  return longest / 1_000
}
