import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { settleStage } from '../../../../../activities/control/cohorts/settle-stage.ts'
import { expireEdges } from '../../../../../db/repositories/cohorts/edge-retries.ts'
import { endCohort } from '../../../../../db/repositories/cohorts/endings.ts'
import { newId } from '../../../../../domain/ids.ts'
import { EdgeSide, INLINE } from '../../../../support/assertions/edge-suite.ts'
import { buildEndpoint } from '../../../../support/builders/build-endpoint.ts'
import {
  buildCohort,
  buildEdge,
  buildStage,
  leaseStage,
} from '../../../../support/builders/cohorts/cohorts.ts'
import { type AnyBody, startApi, type TestApi } from '../../../../support/servers/api.ts'
import { signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const ROUNDS = 8

const spec = (stage_id: string) =>
  JSON.stringify({
    stage_id,
    operation: 'infer',
    input: {},
    required: true,
    fallbacks: [],
    max_attempts: 5,
    timeout_s: 60,
  })

describe('a storm of calls to one cohort', function () {
  this.timeout(120_000)
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  it('causes no deadlocks visible to callers, and only expected refusals', async () => {
    const { db } = api.database
    const bad: string[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const { accountId, key } = await api.account()
      const endpoint = await buildEndpoint(db, accountId)
      const nodes = [await signedNode(api, newId()), await signedNode(api, newId())] as const
      const cohort = await buildCohort(db, accountId, {
        request: JSON.stringify({
          name: null,
          stages: [],
          edges: [],
          outputs: [],
          constraints: {},
          sample_sizes: {},
        }),
      })
      const names = ['a', 'b', 'c', 'd']
      const stages = []
      for (const [position, name] of names.entries())
        stages.push(
          await buildStage(db, cohort, {
            name,
            position,
            status: 'waiting',
            specification: spec(name),
            endpoint_id: endpoint.id,
          }),
        )
      const pairs = [
        [0, 1],
        [0, 2],
        [1, 3],
        [2, 3],
        [0, 3],
      ] as const
      const tokens = await Promise.all(stages.map((stage, i) => leaseStage(db, stage, nodes[i % 2]!.nodeId)))
      const edges = []
      for (const [i, [from, to]] of pairs.entries())
        edges.push(await buildEdge(db, [stages[from]!, stages[to]!], { to_path: `/k${i}` }))
      const node = (i: number) => nodes[i % 2]!
      const sides = edges.flatMap((edge, i) => {
        const [from, to] = pairs[i]!
        return [
          new EdgeSide(node(from), edge, 'producer', tokens[from]!),
          new EdgeSide(node(to), edge, 'consumer', tokens[to]!),
        ]
      })
      const note = (what: string) => (answer: { status: number; text: string }) => {
        if (answer.status >= 500) bad.push(`${what}: ${answer.text}`)
      }
      const moves: (() => Promise<unknown>)[] = [
        ...sides.map((side, i) => () => side.negotiate(i % 2 === 0 ? INLINE : {}).then(note('negotiate'))),
        ...sides.map(
          (side, i) => () => (i % 2 === 1 ? side.consume() : side.negotiate(INLINE)).then(note('consume')),
        ),
        ...stages.map(
          (_, i) => () =>
            node(i)
              .post(`/api/v1/leases/${tokens[i]}:renew`, {
                lease_s: 60,
                progress: { status: 'running', progress_pct: 1, metadata: {} },
              })
              .then(note('renew')),
        ),
        ...stages.map(
          (_, i) => () =>
            node(i)
              .post(`/api/v1/leases/${tokens[i]}:complete`, {
                result: { text: 'x' },
                inference_time_ms: 1,
                model_state: 'resident',
              })
              .then(note('complete')),
        ),
        ...stages.map(
          (_, i) => () =>
            node(i)
              .post(`/api/v1/leases/${tokens[i]}:fail`, {
                code: 'model_failed',
                message: 'no',
                retryable: true,
              })
              .then(note('fail')),
        ),
        ...stages.map(
          (stage, i) => () =>
            node(i)
              .post(`/api/v1/cohorts/${cohort.id}/stages/${stage.id}:claim`, { lease_s: 60 })
              .then(note('claim')),
        ),
        ...stages.map(
          (stage) => () =>
            db
              .transaction()
              .execute((trx) =>
                settleStage(trx, { stageId: stage.id, attempt: 1, code: 'node_lost', message: 'lost' }),
              ),
        ),
        () => db.transaction().execute((trx) => expireEdges(trx, cohort.id)),
        () =>
          api
            .call<AnyBody>('GET', `/api/v1/tasks/${cohort.task_id}/cohort`, {
              key,
              headers: { 'x-account-id': accountId },
            })
            .then(note('summary')),
        ...(round % 2 === 0
          ? [
              () =>
                db
                  .transaction()
                  .execute((trx) =>
                    endCohort(
                      trx,
                      cohort.id,
                      { status: 'failed', fault: { code: 'x', message: 'x' } },
                      new Date(),
                    ),
                  ),
            ]
          : []),
      ]
      const all = [...moves, ...moves]
        .map((move) => ({ move, at: randomInt(1 << 30) }))
        .toSorted((a, b) => a.at - b.at)
      await Promise.all(all.map(({ move }) => move().catch((err: unknown) => bad.push(String(err)))))
    }
    assert.deepEqual(bad, [])
  })
})
