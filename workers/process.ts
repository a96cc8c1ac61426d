import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError } from '../platform/config.ts'
import type { Logger } from '../platform/log.ts'

/** Aborts when this process is asked to end. */
export function stopSignal(): AbortController {
  const controller = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => controller.abort())
  return controller
}

interface RetryOptions {
  log: Logger
  signal: AbortSignal
  /** Whether trying again cannot help. */
  isFinal?: (err: unknown) => boolean
}

/** Tries until it works or the process is told to stop; says what it waits for once every ten tries. */
export async function retry<T>(
  what: string,
  attempt: () => Promise<T>,
  { log, signal, isFinal = () => false }: RetryOptions,
): Promise<T> {
  for (let tries = 0; ; tries++) {
    signal.throwIfAborted()
    try {
      return await attempt()
    } catch (err) {
      if (err instanceof ConfigError || isFinal(err)) throw err
      if (tries % 10 === 0) log.warn({ reason: String(err) }, `waiting for ${what}`)
      await sleep(Math.min(100 * 2 ** tries, 2000), undefined, { signal })
    }
  }
}

/** Resolves once the signal has aborted. */
export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
