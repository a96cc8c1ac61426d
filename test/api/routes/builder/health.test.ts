import assert from 'node:assert/strict'
import { startApi } from '../../../support/servers/api.ts'
import { startDatabase } from '../../../support/servers/database.ts'

describe('health', () => {
  it('reports a Temporal outage, and the gateway keeps serving', async () => {
    await using api = await startApi()

    const { status, body } = await api.call('GET', '/api/builder/v1/health')

    assert.equal(status, 200)
    assert.equal(body.status, 'degraded')
    assert.equal(body.database.status, 'ok')
    assert.equal(body.temporal.status, 'unreachable')
  })

  it('counts nodes and models for inference', async () => {
    await using api = await startApi()

    const { status, body } = await api.call('GET', '/api/builder/v1/inference/health')

    assert.equal(status, 200)
    assert.deepEqual(body.nodes, { linked: 0, draining: 0 })
    assert.deepEqual(body.models, { warm: 0, cached: 0 })
    assert.equal(body.accepts_work, true)
  })

  it('answers 503 when the database is unreachable', async () => {
    await using database = await startDatabase()
    await using api = await startApi({ database })
    await api.services.db.destroy()

    const { status, body } = await api.call('GET', '/api/builder/v1/health')

    assert.equal(status, 503)
    assert.equal(body.status, 'unavailable')
    assert.equal(body.database.status, 'unreachable')
  })

  it('lists the task types of the catalog', async () => {
    await using api = await startApi()

    const { body } = await api.call('GET', '/api/builder/v1/capabilities')

    assert.deepEqual(
      body.capabilities.map(({ type }: { type: string }) => type),
      ['training', 'inference'],
    )
    assert.ok(body.capabilities[0].task_types.includes('regression'))
    assert.ok(body.dataset_formats.includes('csv'))
    assert.ok(body.capabilities[1].task_types.includes('tool'))
    assert.deepEqual(body.action_kinds, [
      'generative',
      'llm',
      'operation',
      'specialist',
      'tool',
      'trained_model',
    ])
  })
})
