import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Pool } from 'undici'
import { newWebhookSecret, signWebhook } from '../../platform/webhook-signature.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { BARE_ENV } from '../support/compile-cache.ts'

const BODY = Buffer.from(
  '{"id":"e-1","type":"webhook.test","data":{"resource":{"id":"r-1","status":"sent"}}}',
)
const now = () => Math.floor(Date.now() / 1000)

describe('hearth listen', () => {
  let folder: ReturnType<typeof temporaryFolder>
  before(() => {
    folder = temporaryFolder()
  })
  after(() => folder[Symbol.dispose]())

  async function listen(args: string[]) {
    const child = spawn(process.execPath, ['cli/hearth.ts', 'listen', '--port', '0', ...args], {
      env: { ...BARE_ENV, HEARTH_DATA_DIR: folder.path },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const text: string[] = []
    child.stdout.on('data', (chunk: Buffer) => text.push(chunk.toString()))
    while (!text.join('').includes('Listening')) await once(child.stdout, 'data')
    const origin = /(https?:\/\/localhost:\d+)\//.exec(text.join(''))?.[1] ?? ''
    const ca = origin.startsWith('https') ? readFileSync(join(folder.path, 'listen/cert.pem')) : undefined
    const pool = new Pool(origin, { connect: { ...(ca && { ca }) } })
    return {
      output: () => text.join(''),
      async post(body: Buffer, headers: Record<string, string>) {
        const answer = await pool.request({ method: 'POST', path: '/', body, headers })
        return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() }
      },
      async [Symbol.asyncDispose]() {
        await pool.close()
        child.kill('SIGTERM')
        await once(child, 'exit')
      },
    }
  }

  it('answers challenges over TLS with its own certificate, and prints how to reach it', async () => {
    await using listener = await listen([])
    const event = { id: 'e', type: 'webhook.endpoint_verification', data: { verification_challenge: 'c-1' } }

    const { status, headers, text } = await listener.post(Buffer.from(JSON.stringify(event)), {})

    assert.equal(status, 200)
    assert.equal(headers['service-verification-challenge'], 'c-1')
    assert.equal(text, '{"verification_challenge":"c-1"}')
    assert.match(listener.output(), /HEARTH_EGRESS_ALLOW=127\.0\.0\.0\/8:\d+/)
    assert.match(listener.output(), /NODE_EXTRA_CA_CERTS=\S+cert\.pem/)
  })

  it('prints signed events, marks repeated ones, and rejects unsigned ones', async () => {
    const secret = newWebhookSecret()
    await using listener = await listen(['--http', '--secret', secret])
    const signed = { 'service-signature': signWebhook([secret], now(), BODY), 'service-attempt': '1' }

    const good = await listener.post(BODY, signed)
    const again = await listener.post(BODY, { ...signed, 'service-attempt': '2' })
    const forged = await listener.post(Buffer.from(`${BODY.toString()} `), signed)
    const old = await listener.post(BODY, { 'service-signature': signWebhook([secret], now() - 400, BODY) })

    assert.deepEqual(
      [good, again, forged, old].map(({ status }) => status),
      [204, 204, 400, 400],
    )
    assert.match(listener.output(), /webhook\.test e-1 r-1 sent \(attempt 1, signature verified\)/)
    assert.match(listener.output(), /attempt 2, signature verified, seen before/)
  })

  it('strips control characters from received events', async () => {
    await using listener = await listen(['--http'])
    const event = {
      id: 'e-2',
      type: 'webhook\u001B[2J',
      data: { resource: { id: 'r-1', status: '\u009B1A' } },
    }

    await listener.post(Buffer.from(JSON.stringify(event)), {})

    assert.match(listener.output(), /webhook\[2J e-2 r-1 1A/)
  })

  it('answers with the status given by --answer, so that retries can be observed', async () => {
    await using listener = await listen(['--http', '--answer', '503'])

    assert.equal((await listener.post(BODY, {})).status, 503)
  })

  describe('signature verification in the webhook guide', () => {
    const guide = readFileSync('docs/webhooks.md', 'utf8')
    const sample = (language: string) =>
      new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``).exec(guide)?.[1] ?? ''
    const secret = newWebhookSecret()
    const cases = (): [string, Buffer, boolean][] => [
      [signWebhook([secret], now(), BODY), BODY, true],
      [signWebhook([newWebhookSecret(), secret], now(), BODY), BODY, true],
      [signWebhook([newWebhookSecret()], now(), BODY), BODY, false],
      [signWebhook([secret], now(), BODY), Buffer.from('{}'), false],
      [signWebhook([secret], now() - 400, BODY), BODY, false],
      ['', BODY, false],
    ]

    it('works in TypeScript', async () => {
      const file = join(folder.path, 'sample.ts')
      writeFileSync(file, sample('ts'))
      const { isFromHearth } = (await import(pathToFileURL(file).href)) as {
        isFromHearth: (secret: string, header: string, body: Buffer) => boolean
      }

      for (const [header, body, expected] of cases())
        assert.equal(isFromHearth(secret, header, body), expected)
    })

    it('works in Python', () => {
      const file = join(folder.path, 'sample.py')
      writeFileSync(
        file,
        `${sample('python')}\nimport sys\nprint(is_from_hearth(sys.argv[1], sys.argv[2], sys.argv[3].encode()))\n`,
      )

      for (const [header, body, expected] of cases()) {
        const verdict = execFileSync('python3', [file, secret, header, body.toString()]).toString().trim()
        assert.equal(verdict, expected ? 'True' : 'False')
      }
    })
  })
})
