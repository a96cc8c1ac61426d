import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { bumpCache } from '../../../db/repositories/platform/cache-versions.ts'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { until } from '../../support/assertions/until.ts'
import { buildHeldTask, PUBLIC_LISTING } from '../../support/builders/build-endpoint.ts'
import {
  buildSnapshots,
  enableMemory,
  grantMemory,
  keyIdOf,
  callAdmin,
  remember,
  revoke,
} from '../../support/builders/memory.ts'
import { startApi } from '../../support/servers/api.ts'
import { ChatApi } from '../../support/servers/chat-api.ts'

const EMBEDDER = 'memory-embedder'

describe('memory ordered by similarity', () => {
  let chat: ChatApi
  let endpoint: EndpointRow
  let embedder: EndpointRow
  before(async () => {
    chat = await ChatApi.start({
      env: { HEARTH_MEMORY: '1', HEARTH_MEMORY_TOKENS: '100', HEARTH_MEMORY_EMBEDDINGS_MODEL: EMBEDDER },
    })
    endpoint = await chat.warm(PUBLIC_LISTING)
  })
  after(() => chat[Symbol.asyncDispose]())

  const embedded = async (accountId: string, model = embedder.model_key): Promise<number> => {
    const rows = await chat.api.database.db
      .selectFrom('memory_embedding')
      .innerJoin('memory_entry', 'memory_entry.id', 'memory_embedding.entry_id')
      .select('memory_entry.id')
      .where('memory_entry.account_id', '=', accountId)
      .where('model_key', '=', model)
      .execute()
    return rows.length
  }
  const recall = async (key: string, query: string) =>
    (await chat.api.call('POST', '/api/builder/v1/memory/recall', { key, body: { query, limit: 3 } })).body
  const systemFor = async (key: string, content: string): Promise<string> => {
    const answer = await chat.chat(endpoint.id, { messages: [{ role: 'user', content }] }, key)
    assert.equal(answer.status, 200)
    const [first] = JSON.parse((await chat.stats(endpoint)).last).messages
    return first.role === 'system' ? first.content : ''
  }
  async function accountWith(texts: readonly string[]) {
    const caller = await chat.api.account()
    await enableMemory(chat.api, caller)
    const entries = texts.map((text) => ({ text }))
    await callAdmin(chat.api, 'POST', `/accounts/${caller.accountId}/memory/import`, { entries })
    return caller
  }
  const FACTS = [
    'the cat eats tuna every morning',
    'the car needs new tyres',
    ...Array.from({ length: 60 }, (_, i) => `unrelated remark number ${i} about weather`),
  ]

  it('returns the newest entries while there are no vectors', async () => {
    const { key } = await accountWith(FACTS)
    await buildSnapshots(chat.api)

    assert.match(await systemFor(key, 'what does the cat eat?'), /weather/)
    assert.equal((await recall(key, 'cat')).ordered_by, 'recency')
  })

  for (const batches of [true, false]) {
    it(`returns the entries nearest to the request, with a model that accepts ${batches ? 'lists' : 'one text'}`, async () => {
      embedder = await chat.warm({ name: `${EMBEDDER}-${batches}`, task_type: 'embeddings' }, [chat.node], {
        name: 'embed',
        batches,
      })
      await name(embedder)
      const { key, accountId } = await accountWith(FACTS)
      await until(async () => (await embedded(accountId)) === FACTS.length)
      await buildSnapshots(chat.api)

      const cat = await systemFor(key, 'what does the cat eat in the morning?')
      const car = await systemFor(key, 'tyres of the car')
      const recalled = await recall(key, 'cat tuna morning')

      assert.match(cat.split('\n')[1] ?? '', /tuna/)
      assert.match(car.split('\n')[1] ?? '', /tyres/)
      assert.equal(recalled.ordered_by, 'nearness')
      assert.match(recalled.entries[0].text, /tuna/)
      assert.equal(recalled.entries.length, 3)
    })
  }

  it('returns no entry that is newer than the snapshot, deleted, superseded or from another account', async () => {
    const mine = await accountWith(['the cat eats tuna', 'the dog eats beef'])
    const other = await accountWith(['the cat of others eats mice'])
    await until(async () => (await embedded(mine.accountId)) === 2 && (await embedded(other.accountId)) === 1)
    await buildSnapshots(chat.api)
    await remember(chat.api, mine.key, 'the cat eats salmon now')
    await until(async () => (await embedded(mine.accountId)) === 3)

    const before = await systemFor(mine.key, 'the cat eats')
    const live = await recall(mine.key, 'the cat eats')
    const tuna = live.entries.find(({ text }: { text: string }) => text.includes('tuna'))
    await chat.api.call('DELETE', `/api/builder/v1/memory/entries/${tuna.entry_id}`, { key: mine.key })
    const after = await systemFor(mine.key, 'the cat eats')

    assert.match(before, /tuna/)
    assert.doesNotMatch(before, /salmon|mice/)
    assert.ok(live.entries.some(({ text }: { text: string }) => text.includes('salmon')))
    assert.doesNotMatch(after, /tuna|mice/)
    assert.match(after, /beef/)
    // Other keys still find the entries that a key without a grant can't read.
    const stranger = await chat.api.key(mine.accountId, 'operator')
    await grantMemory(chat.api, stranger, 'read')
    await revoke(chat.api, stranger, 'read')
    await systemFor(stranger, 'the cat eats')
    assert.match(await systemFor(mine.key, 'the dog eats'), /beef/)
  })

  it('returns the nearest entries of the snapshot, however many newer entries are nearer', async () => {
    const weather = FACTS.slice(2)
    const mine = await accountWith(['the car is red', ...weather])
    await until(async () => (await embedded(mine.accountId)) === 1 + weather.length)
    await buildSnapshots(chat.api)
    const { db } = chat.api.database
    const taskId = await buildHeldTask(db, mine.accountId)
    const keyId = await keyIdOf(chat.api, mine.key)
    await chat.api.services.memory.attach(db, { endpoint, accountId: mine.accountId, keyId, taskId })
    const entries = Array.from({ length: 80 }, (_, i) => ({ text: `the cat eats tuna ${i}` }))
    await callAdmin(chat.api, 'POST', `/accounts/${mine.accountId}/memory/import`, { entries })
    await until(async () => (await embedded(mine.accountId)) === 81 + weather.length)
    await sleep(1_100)

    const question = 'the cat eats tuna in the red car'
    const first = (content: string) => content.split('\n')[1] ?? ''
    assert.match(first(await systemFor(mine.key, question)), /car is red/)
    await buildSnapshots(chat.api)
    assert.match(first(await systemFor(mine.key, question)), /tuna/)
    const ofTask = await chat.api.services.memory.ofTask(taskId)
    const chatBody = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: question }] }))
    const { messages } = JSON.parse(String(await ofTask?.addTo(chatBody)))
    assert.match(first(messages[0].content), /car is red/)
  })

  it('stores vectors encrypted, including vectors from older gateways', async () => {
    const { db } = chat.api.database
    const { memory, secretBox } = chat.api.services
    const { accountId, key } = await accountWith(['the cat eats tuna', 'the car is red'])
    await until(async () => (await embedded(accountId)) === 2)
    const stored = () =>
      db
        .selectFrom('memory_embedding')
        .innerJoin('memory_entry', 'memory_entry.id', 'memory_embedding.entry_id')
        .select(['entry_id', 'memory_embedding.sealed', 'vector'])
        .where('account_id', '=', accountId)
        .execute()
    const plain: Buffer[] = []
    for (const { entry_id, sealed } of await stored()) {
      const vector = secretBox.open(sealed ?? Buffer.alloc(0), `memory_embedding/${entry_id}`)
      plain.push(vector)
      const written = { vector, sealed: null }
      await db.updateTable('memory_embedding').set(written).where('entry_id', '=', entry_id).execute()
    }
    const first = await recall(key, 'cat tuna')

    memory.changed()
    await until(async () => (await stored()).every(({ vector }) => vector === null))

    assert.deepEqual([first.ordered_by, plain.map(({ length }) => length)], ['nearness', [256, 256]])
    for (const { sealed } of await stored()) assert.ok(plain.every((vector) => !sealed?.includes(vector)))
  })

  it('embeds the other entries when the model rejects one, which is still listed after the nearest ones', async () => {
    const mine = await accountWith(['the cat eats tuna', 'POISON for the model', 'the car is red'])
    await until(async () => (await embedded(mine.accountId)) === 2)
    await buildSnapshots(chat.api)

    const lines = (await systemFor(mine.key, 'what does the cat eat')).split('\n').slice(1)

    assert.deepEqual(
      lines.map((line) => /tuna|red|POISON/.exec(line)?.[0]),
      ['tuna', 'red', 'POISON'],
    )
  })

  it('rebuilds snapshots and vectors when the endpoint serves another model', async () => {
    const { key, accountId } = await accountWith(['the cat eats tuna', 'the car is red'])
    await until(async () => (await embedded(accountId)) === 2)
    await buildSnapshots(chat.api)

    const next = await chat.warm({ name: `${EMBEDDER}-next`, task_type: 'embeddings' }, [chat.node], {
      name: 'embed',
      batches: true,
    })
    await name(next)
    await until(async () => (await embedded(accountId, next.model_key)) === 2)
    await until(async () => {
      await buildSnapshots(chat.api)
      const { body } = await callAdmin(chat.api, 'GET', `/accounts/${accountId}/memory`)
      const { model_key } = await chat.api.database.db
        .selectFrom('memory_snapshot')
        .select('model_key')
        .where('id', '=', body.snapshot.snapshot_id)
        .executeTakeFirstOrThrow()
      return model_key === next.model_key
    })

    assert.equal((await recall(key, 'cat')).ordered_by, 'nearness')
  })

  it('is not rebuilt while gateways are configured with different models', async () => {
    const second = await chat.warm({ name: 'second-embedder', task_type: 'embeddings' }, [chat.node], {
      name: 'embed',
      batches: true,
    })
    const { accountId } = await accountWith(['the cat eats tuna'])
    await buildSnapshots(chat.api)
    const { db } = chat.api.database
    const builds = async () =>
      (
        await db.selectFrom('memory_namespace').select('builds').where('account_id', '=', accountId).execute()
      )[0]?.builds
    const before = await builds()
    const env = { HEARTH_MEMORY: '1', HEARTH_MEMORY_EMBEDDINGS_MODEL: second.name }

    const other = await startApi({ env, database: chat.api.database })
    await until(async () => {
      const rows = await db.selectFrom('gateway').select('memory_model').execute()
      return rows.some(({ memory_model }) => memory_model === second.model_key)
    })
    const looks = async () => {
      for (let i = 0; i < 3; i++) {
        other.services.memory.changed()
        chat.api.services.memory.changed()
        await sleep(100)
        await buildSnapshots(chat.api)
      }
    }
    await looks()
    const during = await builds()
    await other[Symbol.asyncDispose]()

    assert.equal(during, before)
  })

  /** Gives this endpoint the name in the setting, and renames the endpoint that had it. */
  async function name({ id }: EndpointRow): Promise<void> {
    const { db } = chat.api.database
    await db.transaction().execute(async (trx) => {
      await trx
        .updateTable('endpoint')
        .set({ name: `former-${id}` })
        .where('name', '=', EMBEDDER)
        .execute()
      await trx.updateTable('endpoint').set({ name: EMBEDDER }).where('id', '=', id).execute()
      await bumpCache(trx, 'endpoint')
    })
  }
})
