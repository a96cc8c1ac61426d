/** Waits for shared work: a caller whose signal aborts stops waiting, and the work continues. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  // No caller may be left to handle a rejection.
  work.catch(() => {})
  signal.throwIfAborted()
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason as Error)
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
