import { ApplicationFailure, cancellationSignal } from '@temporalio/activity'
import { ModelUnavailableError } from '../../../node-runtime/models/manager.ts'
import { unlessAborted } from '../../../platform/async/unless-aborted.ts'
import { beat } from '../beat.ts'
import type { NodeDeps } from '../deps.ts'

/** The part of a fault that is this node's own words; behind it may stand what a program or a stranger said. */
const OWN_WORDS = /^[^\n]*?(?=[.:]\s|\n|$)/
const MOST_WORDS = 200

/**
 * A model that cannot be had here now, as Temporal and the workflow see it; another node may do better. What its server
 * said last is in the node's report and log, never in history.
 */
export function toFailure(err: unknown): unknown {
  if (!(err instanceof ModelUnavailableError)) return err
  const { code } = err
  const why =
    code === 'backing_off' ? 'its last load failed here a moment ago' : OWN_WORDS.exec(err.message)?.[0]
  return ApplicationFailure.create({
    message: (why || code).slice(0, MOST_WORDS),
    type: code,
    nonRetryable: code === 'no_capacity' || code === 'unusable',
  })
}

export const createModelActivities = ({ models }: NodeDeps) => ({
  /** Loads a model on this node. Safe to repeat because a load under way is joined and a loaded model is left alone. */
  async loadModel({ modelKey }: { modelKey: string }): Promise<void> {
    using _alive = beat()
    const loaded = models.load(modelKey).catch((err: unknown) => Promise.reject(toFailure(err)))
    await unlessAborted(loaded, cancellationSignal())
  },
})
