import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import type { TaskStatus } from '../../../../schemas/inference-task.ts'
import { SOON_MS, until } from '../../../support/assertions/until.ts'
import { connectTo } from '../../../support/servers/api.ts'
import { ChatApi } from '../../../support/servers/chat-api.ts'

const CLIENTS = 60
/** No request ends by itself during a test. */
const NEVER_MS = 600_000

/** A way in which clients disconnect; bench/harness/abort-probe.mjs has the same list. */
interface Leaving {
  title: string
  body: object
  /** Settles when the client should disconnect. */
  until: (socket: Socket, at: { number: number; allAsked: () => Promise<void> }) => Promise<unknown>
  /** Streams have a row from the moment a node receives the request. */
  rows: number
  /**
   * In a flood some clients disconnect before the gateway has read their request, so the model server never receives
   * it.
   */
  isFlood?: boolean
}

const silent = { fake: { delay_ms: NEVER_MS } }
const LEAVINGS: Leaving[] = [
  {
    title: 'before a non-streaming response',
    body: silent,
    until: (_socket, { allAsked }) => allAsked(),
    rows: 0,
  },
  {
    title: 'before the first byte of a stream',
    body: { stream: true, ...silent },
    until: (_socket, { allAsked }) => allAsked(),
    rows: CLIENTS,
  },
  {
    title: 'mid-stream',
    body: { stream: true, fake: { tokens: NEVER_MS, gap_ms: 10 } },
    until: async (socket) => {
      await once(socket, 'data')
      await sleep(Math.random() * 100)
    },
    rows: CLIENTS,
  },
  {
    title: 'in a flood, at any stage',
    body: silent,
    until: (_socket, { number }) => sleep(3 + number),
    rows: 0,
    isFlood: true,
  },
]

describe('chats whose clients disconnect', () => {
  let chat: ChatApi
  /** Requests in flight, as the gateway counts them to choose a node. */
  let pending = 0
  before(async () => {
    chat = await ChatApi.start()
    const { placement } = chat.api.services.links
    const add = placement.addPending.bind(placement)
    placement.addPending = (nodeId, count) => {
      pending += count
      add(nodeId, count)
    }
  })
  after(() => chat[Symbol.asyncDispose]())

  for (const leaving of LEAVINGS) {
    it(`are aborted at the model server within a second and leave nothing behind: ${leaving.title}`, async () => {
      const endpoint = await chat.warm()
      assert.equal((await chat.chat(endpoint.id)).status, 200)
      const { requests: earlier } = await chat.stats(endpoint)
      const connections = await chat.api.connections()

      await leave(endpoint, leaving)

      // This request comes after all others, none of which can still reach the model server.
      assert.equal((await chat.chat(endpoint.id)).status, 200)
      await until(async () => (await chat.stats(endpoint)).in_flight === 0, SOON_MS)
      const { aborted, requests } = await chat.stats(endpoint)
      assert.equal(aborted, requests - earlier - 1)
      if (!leaving.isFlood) assert.equal(aborted, CLIENTS)
      await until(() => pending === 0, SOON_MS)
      await until(() => chat.node.parts.models.report().every(({ in_flight }) => in_flight === 0), SOON_MS)
      await until(async () => (await chat.api.connections()) <= connections)
      await until(async () => (await rows(endpoint, 'failed')) === leaving.rows)
      assert.equal(await rows(endpoint, 'succeeded'), 2)
      assert.equal(await rows(endpoint), leaving.rows + 2)
      await noneOnLinks()
      assert.equal((await chat.chat(endpoint.id)).status, 200)
    })
  }

  /** Sends all requests, and closes their connections. */
  async function leave(endpoint: EndpointRow, { body, until: time }: Leaving): Promise<void> {
    const text = JSON.stringify({
      model: endpoint.id,
      messages: [{ role: 'user', content: 'hi' }],
      ...body,
    })
    // All clients share one check, because the first one to disconnect changes the result for the others.
    let allThere: Promise<void> | undefined
    const allAsked = () =>
      (allThere ??= until(async () => (await chat.stats(endpoint)).in_flight === CLIENTS))
    const one = async (_: unknown, number: number) => {
      const socket = connectTo(chat.api.baseUrl)
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${chat.caller.key}\r\n` +
          `content-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
      )
      await time(socket, { number, allAsked })
      socket.destroy()
    }
    await Promise.all(Array.from({ length: CLIENTS }, one))
  }

  /** Counts the tasks of an endpoint, in one status or in all. */
  async function rows({ id }: EndpointRow, status?: TaskStatus): Promise<number> {
    const all = chat.api.database.db.selectFrom('task').select('id').where('endpoint_id', '=', id)
    return (await (status ? all.where('status', '=', status) : all).execute()).length
  }

  /** Retires all links. A link closes only when no request is in flight; its node then reconnects. */
  async function noneOnLinks(): Promise<void> {
    const { links } = chat.api.services
    links.retire()
    await until(() => links.ownerOf(chat.node.nodeId) === undefined, SOON_MS)
    await until(() => links.snapshot().length === 1)
  }
})
