const INTERVAL_MS = 10_000

/**
 * Waits for work, and reports every ten seconds that it is still in progress and for how long. `what` is a participle
 * with its object, such as "building the console".
 */
export async function withProgress<T>(
  what: string,
  say: (line: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  const startedAt = performance.now()
  const ticker = setInterval(
    () => say(`still ${what} (${Math.round((performance.now() - startedAt) / 1_000)} s)`),
    INTERVAL_MS,
  )
  try {
    return await work()
  } finally {
    clearInterval(ticker)
  }
}
