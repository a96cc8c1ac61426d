import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../platform/log.ts'
import type { ControlClient } from '../control/client.ts'
import { emit } from '../events.ts'
import type { Tools } from './tools.ts'

const POLL_INTERVAL_MS = 10_000

/** Polls for the operators' tools until the signal aborts. */
export async function followTools(
  tools: Tools,
  { control, log, signal }: { control: Pick<ControlClient, 'tools'>; log: Logger; signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    try {
      tools.offer((await control.tools({ signal })).tools)
    } catch (err) {
      if (!signal.aborted) emit(log, 'tool.list_failed', { err })
    }
    await sleep(POLL_INTERVAL_MS, undefined, { signal }).catch(() => {})
  }
}
