import assert from 'node:assert/strict'
import * as taskMemoryRepository from '../../../db/repositories/memory/task-memory.ts'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { newId } from '../../../domain/ids.ts'
import { until } from '../../support/assertions/until.ts'
import { PUBLIC_LISTING } from '../../support/builders/build-endpoint.ts'
import {
  buildSnapshots,
  enableMemory,
  keyIdOf,
  callAdmin,
  remember,
  revoke,
} from '../../support/builders/memory.ts'
import { type Answer, startApi } from '../../support/servers/api.ts'
import { ChatApi } from '../../support/servers/chat-api.ts'

interface Message {
  role: string
  content: string
}

describe('memory in requests', () => {
  let chat: ChatApi
  let endpoint: EndpointRow
  before(async () => {
    chat = await ChatApi.start({
      env: { HEARTH_MEMORY: '1', HEARTH_MEMORY_TOKENS: '200', HEARTH_STREAM_KEEPALIVE_S: '1' },
    })
    endpoint = await chat.warm(PUBLIC_LISTING)
  })
  after(() => chat[Symbol.asyncDispose]())

  const { parse } = JSON
  const lastMessages = async (): Promise<Message[]> => parse((await chat.stats(endpoint)).last).messages

  async function accountWithMemory(...texts: string[]) {
    const caller = await chat.api.account()
    await enableMemory(chat.api, caller)
    for (const text of texts) await remember(chat.api, caller.key, text)
    await buildSnapshots(chat.api)
    return caller
  }
  const say = (key: string, body: object = {}) => chat.chat(endpoint.id, body, key)
  const audit = async (answer: Answer, id = String(answer.headers['x-hearth-task-id'])) =>
    (await callAdmin(chat.api, 'GET', `/audit/task/${id}`)).body.memory

  it('is the first message of a chat, and its audit record has the snapshot', async () => {
    const { key, accountId } = await accountWithMemory('likes tea', 'lives in Oslo')

    const answer = await say(key, { temperature: 0.5 })

    const sent = parse((await chat.stats(endpoint)).last)
    const [system, user] = sent.messages as Message[]
    assert.equal(answer.status, 200)
    assert.equal(system?.role, 'system')
    assert.match(system?.content ?? '', /lives in Oslo[^]*likes tea/)
    assert.deepEqual(user, { role: 'user', content: 'hi' })
    assert.deepEqual([sent.messages.length, sent.temperature], [2, 0.5])
    const { body } = await callAdmin(chat.api, 'GET', `/accounts/${accountId}/memory`)
    const given = await audit(answer)
    assert.equal(given.outcome, 'given')
    assert.equal(given.snapshot_id, body.snapshot.snapshot_id)
  })

  it('is also added to streams and to infer', async () => {
    const { key } = await accountWithMemory('plays chess')

    const streamed = await say(key, { stream: true })
    const atStream = await lastMessages()
    const inferred = await chat.api.call('POST', `/api/builder/v1/endpoints/${endpoint.id}/infer`, {
      key,
      body: { input: { messages: [{ role: 'user', content: 'move' }] } },
    })

    assert.match(streamed.text, /\[DONE\]/)
    assert.match(atStream[0]?.content ?? '', /plays chess/)
    assert.equal(inferred.body.status, 'succeeded')
    assert.match((await lastMessages())[0]?.content ?? '', /plays chess/)
    assert.equal((await audit(inferred, inferred.body.task_id)).outcome, 'given')
  })

  it("follows the instructions in the caller's own system message", async () => {
    const { key } = await accountWithMemory('is called Ada')
    const messages = [
      { role: 'system', content: 'Be brief.', name: 'rules' },
      { role: 'user', content: 'who am I?' },
    ]

    await say(key, { messages })
    const merged = await lastMessages()
    await say(key, { messages: [{ role: 'system', content: [{ type: 'text', text: 'Be.' }] }, messages[1]] })
    const [parts] = (await lastMessages()) as unknown as { content: { text: string }[] }[]

    assert.equal(merged.length, 2)
    assert.match(merged[0]?.content ?? '', /^Be brief\.\n\nNotes[^]*is called Ada$/)
    assert.equal((merged[0] as { name?: string }).name, 'rules')
    assert.deepEqual(
      parts?.content.map(({ text }) => text.slice(0, 5)),
      ['Be.', 'Notes'],
    )
  })

  it('leaves requests of callers without a grant unchanged, and writes no audit record', async () => {
    const { accountId } = await accountWithMemory('a fact')
    const ungranted = await chat.api.key(accountId, 'operator')
    const stranger = await chat.api.account()

    for (const key of [ungranted, stranger.key, chat.caller.key]) {
      const answer = await say(key)
      assert.deepEqual(await lastMessages(), [{ role: 'user', content: 'hi' }])
      assert.equal(await audit(answer), null)
    }
  })

  it("never puts one account's facts into another's prompt", async () => {
    const ada = await accountWithMemory('only for ada')
    const bob = await accountWithMemory('only for bob')

    await Promise.all(Array.from({ length: 20 }, (_, i) => say((i % 2 ? ada : bob).key)))
    await say(ada.key)
    const toAda = JSON.stringify(await lastMessages())
    await say(bob.key)
    const toBob = JSON.stringify(await lastMessages())

    assert.match(toAda, /only for ada/)
    assert.doesNotMatch(toAda, /bob/)
    assert.match(toBob, /only for bob/)
    assert.doesNotMatch(toBob, /ada/)
  })

  it('contains what the snapshot froze: nothing newer, deleted or superseded', async () => {
    const { key } = await accountWithMemory('stays')
    const doomed = await remember(chat.api, key, 'to be deleted')
    const old = await remember(chat.api, key, 'to be superseded')
    await buildSnapshots(chat.api)
    await remember(chat.api, key, 'the newer one', { supersedes: old })
    await chat.api.call('DELETE', `/api/builder/v1/memory/entries/${doomed}`, { key })

    await say(key)
    const [frozen] = await lastMessages()
    await buildSnapshots(chat.api)
    await say(key)
    const [rebuilt] = await lastMessages()
    await chat.api.call('DELETE', '/api/builder/v1/memory/entries?all=true', { key })
    const answer = await say(key)

    assert.match(frozen?.content ?? '', /stays/)
    assert.doesNotMatch(frozen?.content ?? '', /deleted|superseded|newer/)
    assert.match(rebuilt?.content ?? '', /newer one[^]*stays/)
    assert.deepEqual(await lastMessages(), [{ role: 'user', content: 'hi' }])
    assert.equal((await audit(answer)).outcome, 'empty')
  })

  it('contains the newest entries that fit into the token budget', async () => {
    const long = (word: string) => `${word} `.repeat(40)
    const { key } = await accountWithMemory(
      long('alpha'),
      'short',
      long('beta'),
      'x'.repeat(7_000),
      long('gamma'),
    )

    await say(key)

    const [system] = await lastMessages()
    const content = system?.content ?? ''
    assert.match(content, /gamma/)
    assert.match(content, /short/)
    assert.doesNotMatch(content, /alpha|beta|xxx/)
    assert.ok(Buffer.byteLength(content) / 3 <= 200, content)
  })

  it('is dropped, and the chat is answered, when the model rejects the request because of it', async () => {
    const { key } = await accountWithMemory('too much')
    // The fake model rejects requests with more than one message.
    const body = { fake: { most_messages: 1 } }

    const whole = await say(key, body)
    const streamed = await say(key, { ...body, stream: true })
    const waited = await say(key, { fake: { ...body.fake, delay_ms: 1_500 }, stream: true })
    const inferred = await chat.api.call('POST', `/api/builder/v1/endpoints/${endpoint.id}/infer`, {
      key,
      body: { input: { messages: [{ role: 'user', content: 'hi' }], ...body } },
    })

    assert.match(waited.text, /^:[^]*\[DONE\]/)
    assert.doesNotMatch(waited.text, /error/)
    assert.deepEqual([whole.status, streamed.status, inferred.body.status], [200, 200, 'succeeded'])
    assert.match(streamed.text, /\[DONE\]/)
    await until(async () => (await audit(whole)).outcome === 'refused')
    await until(async () => (await audit(streamed)).outcome === 'refused')
    await until(async () => (await audit(inferred, inferred.body.task_id)).outcome === 'refused')
  })

  it('never appears in an error, row or event, even when a model quotes its request', async () => {
    const { key, accountId } = await accountWithMemory('the quoted fact')
    const errors: string[] = []
    for (const echoes of ['message', 'body']) {
      for (const status of [400, 413, 422, 429, 500, 503]) {
        const body = { fake: { status, echoes } }
        const input = { messages: [{ role: 'user', content: 'my question' }], ...body }
        const whole = await say(key, body)
        const streamed = await say(key, { ...body, stream: true })
        const inferred = await chat.api.call('POST', `/api/builder/v1/endpoints/${endpoint.id}/infer`, {
          key,
          body: { input },
        })
        assert.deepEqual([whole.status >= 400, inferred.body.status], [true, 'failed'])
        errors.push(whole.text, streamed.text, inferred.text)
      }
    }

    const { db } = chat.api.database
    const tasks = () =>
      db.selectFrom('task').select(['status', 'error']).where('account_id', '=', accountId).execute()
    await until(async () => (await tasks()).filter(({ status }) => status === 'failed').length === 36)
    const rows = await tasks()
    const events = await db.selectFrom('event').selectAll().where('account_id', '=', accountId).execute()
    const dump = JSON.stringify([errors, rows, events])
    assert.doesNotMatch(dump, /quoted fact|Notes remembered/)
    // The model's error for the request without memory is passed on.
    assert.match(dump, /my question/)
    assert.match(dump, /its message is hidden/)
  })

  it('is dropped, and the chat is answered, when it cannot be decrypted', async () => {
    const { key, accountId } = await accountWithMemory('unreadable')
    const { db } = chat.api.database
    await db
      .updateTable('memory_entry')
      .set({ sealed: Buffer.from('not what was stored') })
      .where('account_id', '=', accountId)
      .execute()

    const answer = await say(key)

    assert.equal(answer.status, 200)
    assert.deepEqual(await lastMessages(), [{ role: 'user', content: 'hi' }])
    await until(async () => (await audit(answer)).outcome === 'unavailable')
    assert.equal((await audit(answer)).reason, 'unreadable')
  })

  it('is no longer read once a revocation on any gateway has returned', async () => {
    const { key } = await accountWithMemory('the revoked fact')
    await using other = await startApi({ env: { HEARTH_MEMORY: '1' }, database: chat.api.database })
    const bodies: { at: number; has: boolean }[] = []
    let isOver = false
    const chats = Array.from({ length: 100 }, async (_, i) => {
      while (!isOver) {
        const began = performance.now()
        const answer = await say(key, { user: `u${i}` })
        assert.equal(answer.status, 200)
        const memory = await audit(answer)
        bodies.push({ at: began, has: memory?.outcome === 'given' })
      }
    })
    await until(() => bodies.length > 20, 20_000)

    const revoked = await revoke(other, key, 'read')
    const answeredAt = performance.now()
    const before = (await chat.stats(endpoint)).remembered
    await until(() => bodies.filter(({ at }) => at > answeredAt).length > 50, 20_000)
    isOver = true
    await Promise.all(chats)
    const after = (await chat.stats(endpoint)).remembered

    assert.equal(revoked.status, 204)
    assert.ok(bodies.some(({ at, has }) => at < answeredAt && has))
    assert.ok(bodies.every(({ at, has }) => at < answeredAt || !has))
    // The model server has not received it in any request since.
    assert.equal(after, before)
  })

  it('falls back to the newest snapshot when the attached one is gone', async () => {
    const { key, accountId } = await accountWithMemory('still there')
    const reader = { taskId: newId(), accountId, keyId: await keyIdOf(chat.api, key) }

    const options = { snapshotId: newId(), mostTokens: 1_000, limit: 10 }
    const { entries, outcome } = await taskMemoryRepository.takeMemory(chat.api.database.db, reader, options)
    const { body } = await callAdmin(chat.api, 'GET', `/accounts/${accountId}/memory`)
    const row = await taskMemoryRepository.findTaskMemory(chat.api.database.db, reader.taskId)

    assert.deepEqual([entries.length, outcome], [1, 'given'])
    assert.equal(row?.reason, null)
    assert.equal(row?.snapshot_id, body.snapshot.snapshot_id)
  })

  it('records a reason when it is denied or unavailable', async () => {
    const { db } = chat.api.database
    const { key, accountId } = await accountWithMemory('a fact')
    const keyId = await keyIdOf(chat.api, key)
    const reasonNow = async () => {
      const reader = { taskId: newId(), accountId, keyId }
      await taskMemoryRepository.takeMemory(db, reader, { mostTokens: 1_000, limit: 10 })
      const row = await taskMemoryRepository.findTaskMemory(db, reader.taskId)
      return [row?.outcome, row?.reason]
    }
    const path = `/accounts/${accountId}/memory`

    await db
      .updateTable('memory_namespace')
      .set({ snapshot_id: null })
      .where('account_id', '=', accountId)
      .execute()
    const unbuilt = await reasonNow()
    await callAdmin(chat.api, 'POST', `${path}/disable`)
    const disabled = await reasonNow()
    await callAdmin(chat.api, 'POST', `${path}/enable`)
    await callAdmin(chat.api, 'DELETE', `/keys/${keyId}`)
    const revokedKey = await reasonNow()
    await db.updateTable('api_key').set({ revoked_at: null }).where('id', '=', keyId).execute()
    await callAdmin(chat.api, 'DELETE', `/keys/${keyId}/memory-grants/read`)
    const revoked = await reasonNow()

    assert.deepEqual(
      [unbuilt, disabled, revokedKey, revoked],
      [
        ['unavailable', 'no_snapshot'],
        ['denied', 'disabled'],
        ['denied', 'key_revoked'],
        ['denied', 'no_grant'],
      ],
    )
  })

  it('is revoked within seconds even if a gateway does not respond', async () => {
    const { key } = await accountWithMemory('a fact')
    const { db } = chat.api.database
    const lease_expires_at = new Date(Date.now() + 60_000)
    const id = newId()
    await db
      .insertInto('gateway')
      .values({ id, base_url: 'http://silent', lease_expires_at, memory_version: 0 })
      .execute()

    const began = performance.now()
    const { status } = await revoke(chat.api, key, 'read')
    const tookMs = performance.now() - began
    await db.deleteFrom('gateway').where('id', '=', id).execute()

    assert.equal(status, 204)
    assert.ok(tookMs >= 2_000 && tookMs < 10_000, String(tookMs))
  })
})
