import { ApplicationFailure, cancellationSignal } from '@temporalio/activity'
import { isToolKey } from '../../../domain/tools/catalog.ts'
import { ModelUnavailableError } from '../../../node-runtime/models/unavailable.ts'
import { unlessAborted } from '../../../platform/async/unless-aborted.ts'
import type { NodeDeps } from '../deps.ts'
import { sendHeartbeats } from '../heartbeats.ts'

/** The first part of an error, which is the node's own text; the rest may quote a program or another account's data. */
const OWN_WORDS = /^[^\n]*?(?=[.:]\s|\n|$)/
const MAX_WORDS = 200

/**
 * Converts a load error for Temporal and the workflow; another node may succeed. The server's last output is in the
 * node's report and log, never in the history.
 */
export function toFailure(err: unknown): unknown {
  if (!(err instanceof ModelUnavailableError)) return err
  const { code } = err
  const why =
    code === 'backing_off' ? 'its last load failed here a moment ago' : OWN_WORDS.exec(err.message)?.[0]
  return ApplicationFailure.create({
    message: (why || code).slice(0, MAX_WORDS),
    type: code,
    nonRetryable: code === 'no_capacity' || code === 'unusable',
  })
}

export const createModelActivities = ({ models }: NodeDeps) => ({
  /**
   * Loads a model on this node. Safe to repeat because a load in progress is shared and a loaded model stays loaded.
   */
  async loadModel({ modelKey }: { modelKey: string }): Promise<void> {
    // Tools start per request, but gateways up to 0.12 still ordered their loads.
    if (isToolKey(modelKey)) return
    using _alive = sendHeartbeats()
    const loaded = models.load(modelKey).catch((err: unknown) => Promise.reject(toFailure(err)))
    await unlessAborted(loaded, cancellationSignal())
  },
})
