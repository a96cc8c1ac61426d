import assert from 'node:assert/strict'
import { boundedModels, boundedProcesses, readState } from '../../../../api/gateway/links/reports.ts'
import { LinkProtocolError } from '../../../../platform/link/codec.ts'
import { reportOf } from '../../../support/servers/nodes/raw-node.ts'

const read = (models: object[], more: object = {}) => {
  const { report } = readState({ body: Buffer.from(JSON.stringify({ report: reportOf(models, more) })) })
  assert.ok(report)
  return report
}

describe("a node's report", () => {
  const memory = { model_key: 'model-0', ram_mb: 1, ram_peak_mb: 1 }
  const fault = { runtime_profile: 'tiny', error: 'e' }

  it('is refused with impossible memory, and with times that no timestamp can hold', () => {
    const CASES: [field: string, models: object[], more?: object][] = [
      ['processes', [], { processes: Array(10_000).fill(memory) }],
      ['processes', [], { processes: 'many' }],
      ['processes.0.ram_mb', [], { processes: [{ ...memory, ram_mb: 1e300 }] }],
      ['processes.0.ram_mb', [], { processes: [{ ...memory, ram_mb: -1 }] }],
      ['processes.0.vram_mb', [], { processes: [{ ...memory, vram_mb: '1' }] }],
      ['processes.0.model_key', [], { processes: [{ ...memory, model_key: [] }] }],
      ['models.0.retry_at', [{ retry_at: 1e300 }]],
      ['models.0.engine_fault.retry_at', [{ engine_fault: { ...fault, retry_at: 253_402_300_800_000 } }]],
    ]
    for (const [field, models, more] of CASES)
      assert.throws(
        () => read(models, more),
        (err) =>
          err instanceof LinkProtocolError &&
          err.message.startsWith(`malformed report: body.report.${field}:`),
        field,
      )
  })

  it('loses the members that this version does not know, and the memory of models that are not passed on', () => {
    const { models, processes = [] } = read([{ engine_fault: { ...fault, more: 'x' }, more: 'x' }], {
      processes: [
        { ...memory, more: 'x' },
        { ...memory, model_key: 'of another account' },
        { run_id: 'run', ram_mb: 2, ram_peak_mb: 3 },
      ],
    })

    const [model] = boundedModels(models)
    assert.deepEqual([model?.engine_fault, 'more' in (model ?? {})], [fault, false])
    assert.deepEqual(boundedProcesses(processes, models), [
      memory,
      { run_id: 'run', ram_mb: 2, ram_peak_mb: 3 },
    ])
  })
})
