import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { ControlClient } from '../../../node-runtime/control/client.ts'
import type { Identity } from '../../../node-runtime/control/identity.ts'

const MB = 1_000_000
const IDLE_TIMEOUT_MS = 3_000

/** A gateway that reads all request bodies at this combined rate. */
class SlowGateway implements AsyncDisposable {
  readonly #server = createServer((req, res) => void this.#answer(req, res).catch(() => res.destroy()))
  readonly #bytesPerMs: number
  #freeAt = 0
  /** The accounts whose uploads have arrived, in order. */
  readonly arrived: string[] = []
  started = 0
  underWay = 0
  mostUnderWay = 0
  /** The number of bytes after which an upload's connection breaks, once. */
  breakAt = Infinity

  constructor(bytesPerMs: number) {
    this.#bytesPerMs = bytesPerMs
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (req.method === 'GET') return void res.end('input')
    this.started += 1
    this.underWay += 1
    this.mostUnderWay = Math.max(this.mostUnderWay, this.underWay)
    const pieces: Buffer[] = []
    let bytes = 0
    try {
      for await (const piece of req as AsyncIterable<Buffer>) {
        pieces.push(piece)
        bytes += piece.length
        if (bytes > this.breakAt) {
          this.breakAt = Infinity
          return void res.destroy()
        }
        this.#freeAt = Math.max(this.#freeAt, performance.now()) + piece.length / this.#bytesPerMs
        await sleep(this.#freeAt - performance.now())
      }
    } finally {
      this.underWay -= 1
    }
    const { account } = JSON.parse(Buffer.concat(pieces).toString()) as { account: string }
    this.arrived.push(account)
    res.end('{}')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

/** Accepts connections and never responds. */
async function startFrozen() {
  const server = createServer(() => {})
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.dispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}

const open = (gateways: readonly string[] | (() => readonly string[]), patienceMs?: number) => {
  const identity = { sign: () => ({}) } as unknown as Identity
  return new ControlClient({
    identity,
    gateways: () => (typeof gateways === 'function' ? gateways() : gateways),
    uploadIdleMs: IDLE_TIMEOUT_MS,
    ...(patienceMs !== undefined && { patienceMs }),
  })
}

const upload = (control: ControlClient, account: string, mb: number, text = 'x') =>
  control.complete('lease', { account, result: text.repeat(mb * MB) }, { turn: account })

describe('results that a node uploads over a slow connection', function () {
  this.timeout(120_000)

  it("arrive even if each takes longer than the gateway's idle timeout", async () => {
    await using gateway = new SlowGateway(10_000)
    const control = open([await gateway.start()])
    try {
      const began = performance.now()
      // Two bytes per character, so that the length in bytes differs from the string's length.
      await Promise.all([upload(control, 'a', 15, 'é'), upload(control, 'a', 30), upload(control, 'b', 1)])
      assert.ok(
        performance.now() - began > 1.8 * IDLE_TIMEOUT_MS,
        'the connection was too fast for this test',
      )
    } finally {
      await control.close()
    }
    assert.deepEqual(gateway.arrived.toSorted(), ['a', 'a', 'b'])
    assert.equal(gateway.started, 3, 'nothing was sent twice')
  })

  it('take turns by account, and leave connections for claims and inputs', async () => {
    await using gateway = new SlowGateway(4_000)
    const control = open([await gateway.start()])
    try {
      const large = Array.from({ length: 10 }, () => upload(control, 'large', 2))
      await sleep(300)
      const small = upload(control, 'small', 2)
      await control.claimTask('task', { account: 'small' })
      const { body } = await control.download('/api/v1/input', {
        turn: 'small',
        signal: new AbortController().signal,
      })
      assert.equal(body.toString(), 'input')
      assert.ok(gateway.arrived.length < 8, `the input came after ${gateway.arrived.length} results`)
      await small
      const before = gateway.arrived.filter((account) => account === 'large').length
      assert.ok(before < 8, `${before} results of the other account came before`)
      await Promise.all(large)
    } finally {
      await control.close()
    }
    // The task's claim runs alongside the uploads.
    assert.ok(gateway.mostUnderWay <= 5, `${gateway.mostUnderWay} at once`)
  })

  it('are resent even if the connection breaks after the retry time has passed', async () => {
    await using gateway = new SlowGateway(4_000)
    gateway.breakAt = 6 * MB
    const control = open([await gateway.start()], 1_000)
    try {
      const began = performance.now()
      await upload(control, 'a', 8)
      assert.ok(performance.now() - began > 2_500)
    } finally {
      await control.close()
    }
    assert.deepEqual(gateway.arrived, ['a'])
  })

  it('go to the next gateway when one stops reading', async () => {
    using frozen = await startFrozen()
    await using gateway = new SlowGateway(1_000_000)
    const control = open([frozen.origin, await gateway.start()])
    try {
      // The first upload fits into kernel buffers, so that only the response is missing; the second does not.
      await Promise.all([upload(control, 'a', 0.1), upload(control, 'b', 20)])
    } finally {
      await control.close()
    }
    assert.deepEqual(gateway.arrived.toSorted(), ['a', 'b'])
  })

  it('are moved away from a failed gateway even if the order of the gateways has changed', async () => {
    let requestCount = 0
    const { promise, resolve: lost } = Promise.withResolvers<void>()
    const dead = createServer((_, res) => {
      requestCount += 1
      void promise.then(() => res.destroy())
    })
    await new Promise<void>((resolve) => dead.listen(0, '127.0.0.1', resolve))
    await using gateway = new SlowGateway(1_000_000)
    let order = [`http://127.0.0.1:${(dead.address() as AddressInfo).port}`, await gateway.start()]
    const control = open(() => order)
    try {
      const early = upload(control, 'a', 0.2)
      while (requestCount === 0) await sleep(5)
      // The node puts gateways with an open link first.
      order = order.toReversed()
      lost()
      await early
      await upload(control, 'b', 0.2)
    } finally {
      await control.close()
      dead.closeAllConnections()
      dead.close()
    }

    assert.deepEqual([gateway.arrived, requestCount], [['a', 'b'], 1])
  })

  it('stay with a responsive gateway that temporarily rejects another call', async () => {
    using frozen = await startFrozen()
    let refusals = 1
    const busy = createServer((req, res) => {
      req
        .resume()
        .on('end', () => res.writeHead(req.url?.includes('busy') && refusals-- > 0 ? 503 : 200).end())
    })
    await new Promise<void>((resolve) => busy.listen(0, '127.0.0.1', resolve))
    const control = open([`http://127.0.0.1:${(busy.address() as AddressInfo).port}`, frozen.origin])
    try {
      const leaving = new AbortController()
      const refused = control.lease('renew', 'busy', {}, { signal: leaving.signal }).catch(() => {})
      while (refusals > 0) await sleep(5)
      await sleep(50)
      const began = performance.now()
      await Promise.all([control.lease('renew', 'a', {}), control.lease('renew', 'b', {})])
      assert.ok(performance.now() - began < 2_000)
      leaving.abort()
      await refused
    } finally {
      await control.close()
      busy.close()
    }
  })

  it('return to a gateway that broke a connection once the other gateway rejects them', async () => {
    let breaks = 1
    const restarted = createServer(
      (req, res) => void (breaks-- > 0 ? res.destroy() : req.resume().on('end', () => res.end())),
    )
    let status = 200
    const busy = createServer((req, res) => void req.resume().on('end', () => res.writeHead(status).end()))
    const origins = []
    for (const server of [restarted, busy]) {
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      origins.push(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    }
    const control = open(origins, 2_000)
    try {
      await control.lease('renew', 'a', {})
      status = 503
      await control.lease('renew', 'b', {})
    } finally {
      await control.close()
      for (const server of [restarted, busy]) server.close()
    }
  })
})
