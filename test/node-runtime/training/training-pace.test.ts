import assert from 'node:assert/strict'
import { TrainingPace } from '../../../node-runtime/training/training-pace.ts'
import type { StatusDetail } from '../../../schemas/inference-task.ts'

describe('training pace', () => {
  it('is measured from the first reported epoch, and is reported every few seconds and at the end', () => {
    const reports: StatusDetail[] = []
    const pace = new TrainingPace((detail) => reports.push(detail))
    const note = (epoch: number, atS: number) =>
      pace.note({ epoch, epochs: 100, fraction: epoch / 100 }, atS * 1_000)
    note(50, 0)
    note(51, 1)
    note(60, 10)
    note(61, 11)
    note(100, 12)

    assert.deepEqual(
      reports.map(({ progress_pct, metadata }) => [progress_pct, metadata]),
      [
        [50, { step: 50, of: 100, eta_s: null }],
        [60, { step: 60, of: 100, eta_s: 40 }],
        [100, { step: 100, of: 100, eta_s: 0 }],
      ],
    )
  })
})
