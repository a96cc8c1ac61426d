/** Thrown by work that a stop request has interrupted. */
export class StoppedError extends Error {
  override readonly name = 'StoppedError'
}

/** Resolves once, at the first Ctrl-C or SIGTERM, or when the script that started this process has exited. */
export function stopRequested(): { requested: Promise<void>; signal: AbortSignal } {
  const controller = new AbortController()
  const stop = () => controller.abort(new StoppedError('stopped'))
  // Repeated signals have no effect: a terminal, npm and the bootstrap may each forward the same Ctrl-C.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, stop)

  const parent = Number(process.env['HEARTH_PARENT_PID'])
  if (parent && parent === process.ppid) {
    setInterval(() => process.ppid !== parent && stop(), 500).unref()
  }
  const requested = new Promise<void>((resolve) =>
    controller.signal.addEventListener('abort', () => resolve()),
  )
  return { requested, signal: controller.signal }
}
