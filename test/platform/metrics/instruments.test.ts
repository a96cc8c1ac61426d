import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { exposedName, familyName, type Instrument } from '../../../platform/metrics/declarations.ts'
import { INSTRUMENTS } from '../../../platform/metrics/instruments.ts'
import { largest, BoundedLabel } from '../../../platform/metrics/labels.ts'
import { ExposedMetrics } from '../../../platform/metrics/metrics.ts'
import { metricsDocument } from '../../../scripts/metrics-document.ts'
import { Exposition } from '../../support/assertions/exposition.ts'

const ALL = Object.entries(INSTRUMENTS) as [string, Instrument][]

describe('the declared metrics', () => {
  it('are documented in docs/monitoring.md as they are declared', () => {
    const page = readFileSync('docs/monitoring.md', 'utf8')

    assert.equal(page, metricsDocument(page), 'run: npm run metrics:write')
  })

  it('have unique names that Prometheus accepts, and ascending buckets', () => {
    const names = ALL.map(([name, instrument]) => exposedName(name, instrument))

    assert.equal(new Set(names).size, names.length)
    for (const name of names) assert.match(name, /^(http|gen_ai|hearth|process|nodejs)_[a-z0-9_]+$/)
    for (const [name, { buckets = [] }] of ALL)
      assert.deepEqual(
        buckets,
        [...new Set(buckets)].toSorted((a, b) => a - b),
        name,
      )
  })

  it('name accounts only in refusals, and never keys', () => {
    const ids = ALL.flatMap(([name, { attributes }]) =>
      attributes.filter((attribute) => /account|key|user|tenant/.test(attribute)).map(() => name),
    )

    assert.deepEqual(ids, ['hearth.admission.refusals'])
  })

  for (const kind of ['gateway', 'worker', 'gate', 'node'] as const) {
    it(`of a ${kind} are all exposed before the first measurement`, async () => {
      const { families } = new Exposition(await new ExposedMetrics(kind, assert.ifError).text())

      const declared = ALL.filter(([, { processes }]) => processes.includes(kind))
      assert.deepEqual(
        [...families.keys()],
        declared.map(([name, instrument]) => exposedName(name, instrument)),
      )
    })
  }
})

describe('metrics', () => {
  it('escape label values and count measurements into the bucket of their upper bound', async () => {
    const metrics = new ExposedMetrics('gateway', assert.ifError)
    const attributes = { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'a "b"\\\n' }

    for (const value of [1, 4, 5, 1e12])
      metrics
        .histogram('gen_ai.client.token.usage', { ...attributes, 'gen_ai.token.type': 'input' })
        .record(value)

    const exposition = new Exposition(await metrics.text())
    const bucket = (le: string) => exposition.value('gen_ai_client_token_usage_bucket', { le })
    assert.deepEqual([bucket('1'), bucket('4'), bucket('16'), bucket('+Inf')], [1, 2, 3, 4])
    assert.equal(exposition.value('gen_ai_client_token_usage_sum'), 10 + 1e12)
    assert.equal(
      exposition.samples('gen_ai_client_token_usage_count')[0]?.labels['gen_ai_request_model'],
      'a \\"b\\"\\\\\\n',
    )
  })

  it('leave out the gauges of a reader that fails, and report the failure', async () => {
    const errors: unknown[] = []
    const metrics = new ExposedMetrics('gateway', (err) => errors.push(err))
    metrics.onScrape((observe) => observe('hearth.kill_switch.active', 1))
    metrics.onScrape(async () => {
      throw new Error('the database is away')
    })

    const exposition = new Exposition(await metrics.text())

    assert.equal(exposition.value('hearth_kill_switch_active'), 1)
    assert.match(String(errors), /the database is away/)
  })

  it('are declared for the process that records them', () => {
    const metrics = new ExposedMetrics('node', assert.ifError)

    assert.throws(() => metrics.counter('hearth.admission.refusals', {}), /not declared/)
    assert.equal(familyName('hearth.node.memory.free', { unit: 'By' }), 'hearth_node_memory_free_bytes')
  })

  it('bound the values of a label', () => {
    const label = new BoundedLabel(2)

    assert.deepEqual(
      ['a', 'b', 'c', 'a'].map((value) => label.of(value)),
      ['a', 'b', 'other', 'a'],
    )
    assert.deepEqual(
      largest(
        new Map([
          ['a', 1],
          ['b', 5],
          ['c', 2],
          ['d', 3],
        ]),
        2,
      ),
      [
        ['b', 5],
        ['d', 3],
        ['other', 3],
      ],
    )
    assert.deepEqual(largest(new Map([['a', 1]]), 2), [['a', 1]])
  })
})
