import { pause } from './pause.ts'

const INTERVAL_MS = 1_000

export interface WaitOptions<T> {
  /** Called with the first result, then with every result that differs from the previous one. */
  onUpdate?: ((current: T) => unknown) | undefined
  signal?: AbortSignal | undefined
  intervalMs?: number
}

/** Polls a resource until it is done, and returns it. */
export async function waitFor<T>(
  read: () => Promise<T>,
  isOver: (current: T) => boolean,
  { onUpdate, signal, intervalMs = INTERVAL_MS }: WaitOptions<T> = {},
): Promise<T> {
  let lastStatus = ''
  for (;;) {
    const current = await read()
    const text = JSON.stringify(current)
    if (text !== lastStatus) await onUpdate?.(current)
    lastStatus = text
    if (isOver(current)) return current
    await pause(intervalMs, signal)
  }
}
