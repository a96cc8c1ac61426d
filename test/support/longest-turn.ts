/** A timer cannot fire twice within a turn of the event loop, so this is also the shortest stretch that is measured. */
const TICK_MS = 1

/**
 * Returns the most milliseconds of CPU that this thread spent without a turn of its event loop while `work` ran. Unlike
 * the delay of a timer, this does not grow with the load of other processes.
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
    // The turn in which the work ended has not been noted yet.
    await new Promise((resolve) => {
      setTimeout(resolve, TICK_MS + 1)
    })
  } finally {
    clearInterval(ticks)
  }
  return longest / 1_000
}
