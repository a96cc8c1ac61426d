import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import { after, before, describe, it } from 'mocha'
import { request } from 'undici'
import { openDatabase } from '../../db/database.ts'
import type { Database } from '../../db/tables.ts'
import type { Invocation } from '../../schemas/action.ts'
import { eventually } from '../support/assertions/until.ts'
import { regressionTable } from '../support/builders/tables.ts'
import { uploadTable } from '../support/servers/clients/builder-client.ts'
import {
  dataDirectory,
  type Process,
  startTestPlatform,
  type TestPlatform,
} from '../support/servers/platform.ts'
import { databaseUrl } from './chats.ts'
import { makeModel, persistently } from './work.ts'

const VICTIMS: Process[] = ['api', 'control']
const INPUT = { instances: [{ age: 40, income: 30_000, region: 'north' }] }

interface KeyedRequest {
  slug: string
  key: string
  body: object
}

describe('running invocations', function () {
  this.timeout(600_000)
  let data: ReturnType<typeof dataDirectory>
  let platform: TestPlatform
  let db: Kysely<Database>
  let warm: string
  let retrain: object
  const cold = new Map<Process, string>()

  before(async () => {
    data = dataDirectory()
    platform = await startTestPlatform(data.path)
    db = openDatabase(databaseUrl(platform), { max: 2 })
    const slugOf = async (name: string, seed: number) => {
      const { endpointId } = await makeModel(platform, name, seed)
      return (await platform.api.get<{ name: string }>(`/endpoints/${endpointId}`)).name
    }
    warm = await slugOf('warm', 7)
    for (const [index, victim] of VICTIMS.entries())
      cold.set(victim, await slugOf(`cold-${victim}`, index + 20))
    const { runs } = await platform.api.get<{ runs: { job_id: string }[] }>('/training/runs?limit=1')
    retrain = {
      job_name: 'again',
      model_config_id: 'tabular-regression',
      dataset_id: (await uploadTable(platform.api, regressionTable(200, 3))).dataset_id,
      base: { type: 'job', job_id: runs[0]?.job_id },
      hyperparameters: { epochs: 3 },
    }
    await ended(
      await persistently('a first invocation', () =>
        invoke({ slug: warm, key: randomUUID(), body: { input: INPUT } }),
      ),
    )
  })
  after(async () => {
    await db?.destroy()
    await platform?.stop()
    data?.[Symbol.dispose]()
  })

  for (const victim of VICTIMS) {
    it(`each run once and emit one event when ${victim} is killed and clients retry them`, async () => {
      const requests: KeyedRequest[] = [
        ...Array.from({ length: 6 }, () => keyed(warm, { input: INPUT, sync: false })),
        ...Array.from({ length: 6 }, () => keyed(warm, { input: INPUT, sync_timeout_s: 20 })),
        keyed(cold.get(victim)!, { input: INPUT, sync: false }),
        keyed('training.retrain_on', { input: retrain }),
      ]

      const invocations = requests.map((one) => persistently(`${one.slug} ${one.key}`, () => invoke(one)))
      await sleep(20)
      platform.kill(victim)
      const first = await Promise.all(invocations)
      const again = await Promise.all(
        requests.map((one) => persistently(`${one.slug} ${one.key} again`, () => invoke(one))),
      )

      assert.deepEqual(
        again.map(({ invocation_id }) => invocation_id),
        first.map(({ invocation_id }) => invocation_id),
      )
      for (const invocation of first) {
        const { status, error } = await ended(invocation)
        assert.equal(status, 'completed', error ?? '')
      }
      const ids = first.map(({ invocation_id }) => invocation_id)
      const events = await db
        .selectFrom('event')
        .select(['resource_id', 'type'])
        .where('resource_id', 'in', ids)
        .execute()
      assert.deepEqual(events.map(({ resource_id }) => resource_id).toSorted(), ids.toSorted())
      assert.ok(events.every(({ type }) => type === 'invocation.completed'))
      const rows = await db.selectFrom('invocation').select('id').where('ended', '=', false).execute()
      assert.deepEqual(rows, [])
    })
  }

  const keyed = (slug: string, body: object): KeyedRequest => ({ slug, key: randomUUID(), body })

  async function invoke({ slug, key, body }: KeyedRequest): Promise<Invocation> {
    const { base_url, api_key } = platform.ready
    const answer = await request(`${base_url}/api/builder/v1/actions/${slug}:invoke`, {
      method: 'POST',
      headers: { 'x-api-key': api_key, 'idempotency-key': key, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const text = await answer.body.text()
    assert.ok(answer.statusCode < 300, `${answer.statusCode} ${text}`)
    return JSON.parse(text) as Invocation
  }

  const ended = ({ invocation_id: id }: Invocation): Promise<Invocation> =>
    eventually(
      `the end of invocation ${id}`,
      async () => {
        const now = await platform.api.get<Invocation>(`/invocations/${id}`).catch(() => undefined)
        return now && now.completed_at !== null ? now : undefined
      },
      120_000,
    )
})
