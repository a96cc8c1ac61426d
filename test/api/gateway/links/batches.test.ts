import assert from 'node:assert/strict'
import { readLogs, readMetrics } from '../../../../api/gateway/links/reports.ts'
import { newId } from '../../../../domain/ids.ts'

describe('batches of logs and losses from a node', () => {
  it('drop log lines whose sequence numbers are reserved for the platform', () => {
    const line = { job_id: newId(), attempt: 1, at: new Date().toISOString(), message: 'x' }
    const logLines = [2_147_483_647, 1_000_000_000, 999_999_999, 0].map((seq) => ({ ...line, seq }))

    const read = readLogs({ body: Buffer.from(JSON.stringify(logLines)) })

    assert.deepEqual(
      read.map(({ seq }) => seq),
      [999_999_999, 0],
    )
  })

  it('drop losses that are not numbers and keep the rest of the batch', () => {
    const epoch = { job_id: newId(), attempt: 1, at: new Date().toISOString(), train_loss: 1, val_loss: null }
    const metrics = [
      { epoch: 1 },
      { epoch: 2, eval_loss: 'low' },
      { epoch: 3, eval_loss: 2, eval_perplexity: {} },
    ]
    const body = Buffer.from(JSON.stringify(metrics.map((each) => ({ ...epoch, ...each }))))

    const read = readMetrics({ body })

    assert.deepEqual(
      read.map((each) => each.epoch),
      [1],
    )
  })
})
