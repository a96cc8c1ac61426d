import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { EgressPolicy } from '../../../platform/egress/policy.ts'
import { PublicSender, SendError } from '../../../platform/egress/public-sender.ts'
import { until } from '../../support/assertions/until.ts'
import { startReceiver, type Receiver } from '../../support/servers/receiver.ts'

describe('public sender', () => {
  const disposables: AsyncDisposable[] = []
  afterEach(async () => {
    for (const one of disposables.splice(0).toReversed()) await one[Symbol.asyncDispose]()
  })
  const keep = <T extends AsyncDisposable>(one: T): T => (disposables.push(one), one)

  const receiver = async (...args: Parameters<typeof startReceiver>) => keep(await startReceiver(...args))
  const policyFor = ({ port }: { port: number }) =>
    new EgressPolicy({ allow: [`127.0.0.0/8:${port}`], block: [] })
  const sender = (
    to: { port: number },
    answers: string[] | (() => string[]) = ['127.0.0.1'],
    limits: ConstructorParameters<typeof PublicSender>[2] = {},
  ) =>
    keep(
      new PublicSender(
        policyFor(to),
        async () => (typeof answers === 'function' ? answers() : answers),
        limits,
      ),
    )
  const post = (one: PublicSender, to: Receiver, path = '/', name?: string) =>
    one.send(to.url(path, name), {
      method: 'POST',
      owner: 'a',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from('{}'),
    })
  const reasonOf = async (sending: Promise<unknown>) => {
    const err = await sending.then(
      () => assert.fail('was answered'),
      (e: unknown) => e,
    )
    assert.ok(err instanceof SendError, String(err))
    return err.reason
  }

  it('keeps the name for TLS and Host while connecting to the checked address', async () => {
    const to = await receiver((req, res, body) => res.end(`${req.headers.host} ${body.toString()}`))

    const answer = await post(sender(to), to)

    assert.equal(answer.status, 200)
    assert.equal(answer.body.toString(), `receiver.test:${to.port} {}`)
  })

  it('reuses a connection while its address is in the fresh DNS answer', async () => {
    const to = await receiver((_req, res) => res.end())
    const one = sender(to)

    for (let i = 0; i < 5; i++) await post(one, to)

    // A request that arrives before the last connection is free may open a second one.
    assert.ok(to.connections() <= 2, `${to.connections()} connections`)
  })

  it('resolves the name for each exchange, and rejects a DNS answer that has become unsafe, even if a connection is open', async () => {
    const to = await receiver((_req, res) => res.end())
    const answers = [['127.0.0.1'], ['169.254.169.254']]
    const one = sender(to, () => answers.shift() ?? [])

    assert.equal((await post(one, to)).status, 200)
    assert.equal(await reasonOf(post(one, to)), 'address_not_allowed')
  })

  it('does not reuse a connection to an address that is no longer in the answer', async () => {
    const to = await receiver((_req, res) => res.end())
    const answers = [['127.0.0.1'], ['127.0.0.2']]
    const one = sender(to, () => answers.shift() ?? [])

    await post(one, to)

    assert.equal(await reasonOf(post(one, to)), 'connect_failed')
  })

  it('rejects a DNS answer with safe and unsafe addresses without connecting to any of them', async () => {
    const to = await receiver((_req, res) => res.end())

    assert.equal(await reasonOf(post(sender(to, ['127.0.0.1', '10.0.0.1']), to)), 'address_not_allowed')
    assert.equal(to.connections(), 0)
  })

  it('tries the next checked address when the first refuses the connection', async () => {
    const to = await receiver((_req, res) => res.end())

    assert.equal((await post(sender(to, ['127.0.0.3', '127.0.0.1']), to)).status, 200)
  })

  it('does not follow redirects', async () => {
    const paths: string[] = []
    const to = await receiver((req, res) => {
      paths.push(req.url ?? '')
      res.writeHead(307, { location: '/other' }).end()
    })

    assert.equal((await post(sender(to), to)).status, 307)
    assert.deepEqual(paths, ['/'])
  })

  it('reads at most 64 KB of a response', async () => {
    const to = await receiver((_req, res) => {
      res.writeHead(200)
      const timer = setInterval(() => res.write(Buffer.alloc(32_768)), 1)
      res.on('close', () => clearInterval(timer))
    })

    const answer = await post(sender(to), to)

    assert.equal(answer.body.length, 65_536)
  })

  it('aborts when its caller does', async () => {
    const to = await receiver(() => {})
    const aborted = AbortSignal.timeout(50)

    assert.equal(
      await reasonOf(sender(to).send(to.url(), { method: 'POST', owner: 'a', headers: {}, signal: aborted })),
      'aborted',
    )
  })

  it('reports a name that does not resolve', async () => {
    const to = await receiver((_req, res) => res.end())

    assert.equal(await reasonOf(post(sender(to, []), to)), 'name_not_resolved')
  })

  it('reports a hanging resolver, and queries it once for all concurrent callers', async () => {
    const to = await receiver((_req, res) => res.end())
    let questions = 0
    const hanging = () => {
      questions++
      return sleep(20_000, [], { ref: false })
    }
    const one = keep(new PublicSender(policyFor(to), hanging, { resolveMs: 50 }))

    const reasons = await Promise.all([1, 2, 3].map(() => reasonOf(post(one, to))))

    assert.deepEqual(reasons, ['name_not_resolved', 'name_not_resolved', 'name_not_resolved'])
    assert.equal(questions, 1)
  })

  it('gives up on a response that trickles in byte by byte, and closes its connection', async () => {
    let closed = 0
    const to = await receiver((_req, res) => {
      res.writeHead(200)
      const timer = setInterval(() => res.write('.'), 20)
      res.on('close', () => (clearInterval(timer), closed++))
    })

    assert.equal(await reasonOf(post(sender(to, undefined, { exchangeMs: 300 }), to)), 'timeout')
    await until(() => closed === 1)
  })

  it('gives up on headers that trickle in, or on endless informational responses', async () => {
    const drip = (text: string) => async (req: IncomingMessage) => {
      for (;;) {
        if (req.socket.destroyed) return
        req.socket.write(text)
        await sleep(10)
      }
    }
    const slow = await receiver((req) => void drip('H')(req))
    const announcing = await receiver((req) => void drip('HTTP/1.1 103 Early Hints\r\n\r\n')(req))

    const reasons = await Promise.all(
      [slow, announcing].map((to) => reasonOf(post(sender(to, undefined, { exchangeMs: 300 }), to))),
    )

    assert.ok(
      reasons.every((reason) => ['timeout', 'invalid_answer'].includes(reason)),
      reasons.join(),
    )
  })

  it('accepts at most 16 KB of headers', async () => {
    const to = await receiver((_req, res) => {
      res.setHeader('x-large', 'a'.repeat(40_000))
      res.end()
    })

    assert.equal(await reasonOf(post(sender(to), to)), 'invalid_answer')
  })

  it('never makes destinations on the same host wait for each other', async () => {
    const hung: ServerResponse[] = []
    const to = await receiver((req, res) => (req.url === '/hangs' ? void hung.push(res) : res.end()))
    const one = sender(to)
    const hanging = Array.from({ length: 40 }, () => post(one, to, '/hangs'))
    await until(() => hung.length === hanging.length)

    assert.equal((await post(one, to, '/quick')).status, 200)
    for (const res of hung) res.end()
    await Promise.all(hanging)
  })

  it('speaks HTTP/1.1, even to a server that prefers HTTP/2', async () => {
    const to = await receiver((req, res) => res.end(req.httpVersion), { http2: true })

    assert.equal((await post(sender(to), to)).body.toString(), '1.1')
  })

  it('keeps no data from a finished exchange', async () => {
    const to = await receiver((_req, res) => res.end())
    const { signal } = new AbortController()
    const one = sender(to)

    for (let n = 0; n < 3; n++) await one.send(to.url(), { method: 'POST', owner: 'a', headers: {}, signal })

    assert.equal(getEventListeners(signal, 'abort').length, 0)
  })

  it('does not trust an unknown certificate', async () => {
    const to = await receiver((_req, res) => res.end(), { trusted: false })

    assert.equal(await reasonOf(post(sender(to), to)), 'tls_failed')
  })

  it('rejects a certificate for another name', async () => {
    const to = await receiver((_req, res) => res.end())

    assert.equal(await reasonOf(post(sender(to), to, '/', 'wrong.test')), 'tls_failed')
  })

  it('distinguishes a connection closed before the response from a garbage response', async () => {
    const closing = await receiver((req) => req.socket.destroy())
    const garbage = await receiver((req) => req.socket.end('nonsense\r\n\r\n'))

    assert.equal(await reasonOf(post(sender(closing), closing)), 'connection_closed')
    assert.equal(await reasonOf(post(sender(garbage), garbage)), 'invalid_answer')
  })

  it('ignores proxy settings in the environment', async () => {
    process.env.HTTPS_PROXY = 'http://127.0.0.1:9'
    try {
      const to = await receiver((_req, res) => res.end())

      assert.equal((await post(sender(to), to)).status, 200)
    } finally {
      delete process.env.HTTPS_PROXY
    }
  })
})
