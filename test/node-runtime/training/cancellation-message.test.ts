import assert from 'node:assert/strict'
import { cancellationSignal } from '@temporalio/activity'
import { MockActivityEnvironment } from '@temporalio/testing'
import type { CancelReason } from '@temporalio/worker/lib/activity.js'
import { WorkRegistry } from '../../../node-runtime/control/work-registry.ts'
import { formatCancellation } from '../../../node-runtime/training/job-lease.ts'

const RUN_CANCELLED = 'The run was cancelled.'

/** Returns the message for an attempt that Temporal ends with this code. */
async function wordsFor(code: string): Promise<string> {
  // The type lists the codes of the current SDK, and a newer server may send others.
  const environment = new MockActivityEnvironment()
  return environment.run(async () => {
    using work = new WorkRegistry().begin('job', cancellationSignal())
    environment.cancel(code as CancelReason)
    return formatCancellation(work.signal.reason)
  })
}

describe("a stopped attempt's log line", () => {
  it('says that the run was cancelled when Temporal or the link cancelled it', async () => {
    const registry = new WorkRegistry()
    using work = registry.begin('job')
    registry.cancel('job')

    assert.equal(formatCancellation(work.signal.reason), RUN_CANCELLED)
    assert.equal(await wordsFor('CANCELLED'), RUN_CANCELLED)
  })

  it("reports Temporal's reason when Temporal ended the attempt itself", async () => {
    const timedOut = await wordsFor('TIMED_OUT')
    assert.match(timedOut, /^Temporal ended this attempt: it did not send a heartbeat in time\. /)
    assert.match(await wordsFor('NOT_FOUND'), /^Temporal ended this attempt: it is no longer expected\. /)
    assert.match(await wordsFor('SOMETHING_NEW'), /^Temporal ended this attempt: SOMETHING_NEW\. /)
  })
})
