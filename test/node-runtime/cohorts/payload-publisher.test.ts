import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { cancelCohort } from '../../../api/cohorts/cancel-cohort.ts'
import { retryEdges } from '../../../db/repositories/cohorts/edge-retries.ts'
import { endCohort } from '../../../db/repositories/cohorts/endings.ts'
import { closeEdges } from '../../../db/repositories/cohorts/stages.ts'
import { ControlError } from '../../../node-runtime/control/client.ts'
import type { CallOptions } from '../../../node-runtime/control/client.ts'
import { GrowingPayload } from '../../../node-runtime/edges/growing-payload.ts'
import { bearer, edgePath, pinnedClient } from '../../../node-runtime/edges/pinned-client.ts'
import type { EdgeMode } from '../../../schemas/cohorts/vocabulary.ts'
import { edgeWorld } from '../../support/assertions/edge-suite.ts'
import {
  buildCohort,
  buildEdge,
  buildStage,
  leaseStage,
  TEXT_SPACE,
} from '../../support/builders/cohorts/cohorts.ts'
import { sha256Of, storeBytes } from '../../support/builders/cohorts/edges.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { startNode, type TestNode, until } from '../../support/servers/nodes/node.ts'

/** Too large to fit in the row. */
const PAYLOAD = randomBytes(200_000)
const AT_MOST_MS = 1_000

describe('payloads that a node stores for later stages', () => {
  let api: TestApi
  let node: TestNode
  before(async () => {
    api = await startApi()
    node = await startNode(api)
  })
  after(async () => {
    await node?.[Symbol.asyncDispose]()
    await api?.[Symbol.asyncDispose]()
  })

  const kept = async () => (await readdir(join(node.dir, 'edges'))).length

  /** Stores a payload whose keeper receives only its first response; the long poll after it stalls. */
  const keep = async () => {
    const { db } = api.database
    const { accountId } = await api.account()
    const cohort = await buildCohort(db, accountId)
    const stages = [
      await buildStage(db, cohort, { status: 'running' }),
      await buildStage(db, cohort, { status: 'waiting' }),
    ] as const
    const edge = await buildEdge(db, stages, { kind: 'embedding' })
    const leaseToken = await leaseStage(db, stages[0], node.nodeId)
    const { control, edges, keepers } = node.parts
    let calls = 0
    const stalling = Object.assign(Object.create(control) as typeof control, {
      longPoll: control.longPoll.bind(control),
      edge(...[verb, edgeRef, body, options]: Parameters<typeof control.edge>) {
        calls += 1
        return calls === 1 ? control.edge(verb, edgeRef, body, options) : never(options)
      },
    })
    using payload = await storeBytes(edges.store, PAYLOAD)
    const side = {
      edge_id: edge.id,
      attempt: 1,
      kind: 'embedding' as const,
      mode: 'transfer' as const,
      transports: null,
      space_fingerprint: TEXT_SPACE,
      max_bytes: 2 ** 30,
      path: '',
    }
    const caller = { control: stalling, cohortId: cohort.id, leaseToken }
    const produced = { payload, encoding: 'safetensors' as const }
    await keepers.keep(caller, side, produced, AbortSignal.timeout(30_000))
    await until(() => calls === 2)
    return { cohort, edge, stages, caller, side }
  }
  const never = (options?: CallOptions) =>
    new Promise<never>((_, reject) => {
      options?.signal?.addEventListener('abort', () => reject(options.signal?.reason as Error))
    })
  /** Returns the time at which the node removed its payload. */
  const removed = async () => {
    while ((await kept()) > 0) await sleep(10)
    return Date.now()
  }
  const endedAt = async (cohortId: string) => {
    const event = await api.database.db
      .selectFrom('cohort_event')
      .select('created_at')
      .where('cohort_id', '=', cohortId)
      .where('type', 'in', ['cohort.cancelled', 'cohort.failed'])
      .executeTakeFirstOrThrow()
    return event.created_at.getTime()
  }

  it('are removed within a second of a cancellation', async () => {
    const { cohort } = await keep()
    assert.equal(await kept(), 1)

    await cancelCohort(api.services, cohort.id)

    const took = (await removed()) - (await endedAt(cohort.id))
    assert.ok(took <= AT_MOST_MS, `${took} ms`)
  })

  it('are removed within a second when a worker ends the run after a revocation', async () => {
    const { cohort } = await keep()
    const ending = { status: 'failed' as const, fault: { code: 'evidence_revoked' } }

    await api.database.db.transaction().execute((trx) => endCohort(trx, cohort.id, ending, new Date()))

    const took = (await removed()) - (await endedAt(cohort.id))
    assert.ok(took <= AT_MOST_MS, `${took} ms`)
  })

  it('are removed when their hand-over is closed, but not when a different hand-over is', async () => {
    const { cohort, stages, edge } = await keep()
    const other = await buildEdge(api.database.db, stages, { kind: 'embedding', to_path: '/other' })
    const close = (closed: typeof edge) =>
      api.database.db.transaction().execute((trx) => closeEdges(trx, [closed]))

    await close(other)
    await sleep(300)
    assert.equal(await kept(), 1)
    await close(edge)

    await removed()
    assert.equal(
      (
        await api.database.db
          .selectFrom('cohort')
          .select('status')
          .where('id', '=', cohort.id)
          .executeTakeFirstOrThrow()
      ).status,
      'running',
    )
  })

  it('are replaced by the output of a repeated stage', async () => {
    const { cohort, edge, caller, side } = await keep()
    const { edges, keepers } = node.parts
    const bytes = randomBytes(100_000)
    using payload = await storeBytes(edges.store, bytes)

    const again = { ...caller, control: node.parts.control }
    await keepers.keep(again, side, { payload, encoding: 'safetensors' }, AbortSignal.timeout(30_000))
    payload[Symbol.dispose]()

    const { sha256, attempt } = await api.database.db
      .selectFrom('cohort_edge')
      .select(['sha256', 'attempt'])
      .where('id', '=', edge.id)
      .executeTakeFirstOrThrow()
    assert.deepEqual([sha256, attempt], [sha256Of(bytes), 1])
    assert.equal(edges.store.find({ edgeId: edge.id, attempt: 1 })?.sha256, sha256)
    await until(async () => (await kept()) === 1)
    await cancelCohort(api.services, cohort.id)
    await removed()
  })

  it('keep no ticket from an earlier session when the next attempt waits for the whole payload', async () => {
    const { db } = api.database
    const world = await edgeWorld(api, { edge: { kind: 'embedding', mode: 'session' } })
    const { consumer, stages, edgeId, cohortId } = world
    await db.updateTable('lease').set({ state: 'expired' }).where('subject_id', '=', stages[0].id).execute()
    const leaseToken = await leaseStage(db, stages[0], node.nodeId)
    const { control, edges, keepers } = node.parts
    await using source = await GrowingPayload.begin(edges.store)
    const side = {
      edge_id: edgeId,
      attempt: 1,
      kind: 'embedding' as const,
      mode: 'session' as const,
      transports: null,
      space_fingerprint: TEXT_SPACE,
      max_bytes: 2 ** 20,
      path: '',
    }
    const takes = (mode: EdgeMode) =>
      consumer.negotiate({ modes: [mode], transports: ['direct'], encodings: ['safetensors'] }, 5_000)

    const offered = await keepers.offer({ control, cohortId, leaseToken }, side, {
      source,
      encoding: 'safetensors',
    })
    assert.equal((await takes('session')).body.agreed.mode, 'session')
    const meeting = async () =>
      (await consumer.call('rendezvous', { role: 'consumer', local_keys: await edges.localKeys() })).body
    await until(async () => (await meeting()).candidates?.length > 0)
    const { candidates, spki_sha256: spkiSha256, ticket } = await meeting()
    const at = { edgeId, attempt: 1 }
    const peer = { ...at, url: candidates[0].url, spkiSha256, ticket }
    const isAdmitted = async () => {
      const client = pinnedClient(peer, { signal: AbortSignal.timeout(5_000) })
      const pendingResponse = client.request({ method: 'HEAD', path: edgePath(at), headers: bearer(peer) })
      try {
        return (await pendingResponse).statusCode === 200
      } finally {
        await client.destroy()
      }
    }
    await until(isAdmitted)

    const failing = { role: 'consumer', phase: 'fail', transport: 'direct', failure: 'stalled' }
    assert.equal((await consumer.call('session', failing)).body.state, 'failed')
    await db.transaction().execute((trx) => retryEdges(trx, { stageId: stages[1].id, failure: 'stalled' }))
    consumer.attempt = 2
    assert.equal((await takes('transfer')).body.agreed.mode, 'transfer')

    await until(async () => !(await isAdmitted()), 10_000)
    await offered[Symbol.asyncDispose]()
    await cancelCohort(api.services, cohortId)
  })

  it('are dropped when the platform rejects them', async () => {
    const { cohort, caller, side } = await keep()
    await cancelCohort(api.services, cohort.id)
    await removed()
    const { control, keepers, edges } = node.parts
    using payload = await storeBytes(edges.store, PAYLOAD)

    const late = keepers.keep(
      { ...caller, control },
      side,
      { payload, encoding: 'safetensors' },
      AbortSignal.timeout(5_000),
    )

    await assert.rejects(late, (err) => err instanceof ControlError && err.status === 404)
    payload[Symbol.dispose]()
    await removed()
  })
})
