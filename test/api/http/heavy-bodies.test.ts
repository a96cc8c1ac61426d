import assert from 'node:assert/strict'
import { BodyTurns } from '../../../api/http/bodies/body-turns.ts'
import {
  MAX_JSON_NAMES,
  MAX_SHORT_TEXTS,
  MAX_UNLIKE,
  weighJson,
} from '../../../api/http/bodies/json-weight.ts'
import { checkShape } from '../../../api/http/validate.ts'
import { MAX_MESSAGE_MEMBERS } from '../../../api/mcp/members.ts'
import { newId } from '../../../domain/ids.ts'
import { longestTurnMs } from '../../support/longest-turn.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { signedNode } from '../../support/servers/nodes/signed-node.ts'

const MIB = 1024 * 1024

/** Returns JSON with about this many bytes between `open` and `close`. */
function filled(open: string, close: string, item: (nth: number) => string, bytes = 0.9 * MIB): string {
  const parts: string[] = []
  for (let nth = 0, size = 0; size < bytes; nth++) {
    const part = item(nth)
    parts.push(part)
    size += part.length + 1
  }
  return open + parts.join() + close
}

const namesOf = (count: number): string =>
  `{${Array.from({ length: count }, (_, nth) => `"k${nth}":1`).join()}}`

/** Values that were expensive to parse or check, or only look expensive. */
const SHAPES = {
  'many names': filled('{', '}', (nth) => `"k${nth}":1`),
  'many short names': filled('{', '}', (nth) => `"${nth.toString(36)}":0`),
  'many numeric names': filled('{', '}', (nth) => `"${(nth * 7919) % 4294967290}":0`),
  'many names with escapes': filled('{', '}', (nth) => `"\\u0041\\"${nth}" : 0`),
  'objects with different names': filled('[', ']', (nth) => `{"k${nth}":1}`),
  'empty objects': filled('[', ']', () => '{}'),
  'nested arrays': filled('[', ']', () => '['.repeat(50) + ']'.repeat(50)),
  'nested objects': filled('[', ']', () => `${'{"a":'.repeat(50)}1${'}'.repeat(50)}`),
  'numbers with many digits': filled('[', ']', () => `${'12345'.repeat(50)}.${'12345'.repeat(50)}e-250`),
  'short strings': filled('[', ']', (nth) => `"${nth}"`),
  'a string of escapes': `"${'\\n'.repeat(0.4 * MIB)}"`,
  'a base64 string': `"${'QUJD'.repeat(0.2 * MIB)}"`,
  'short arrays': filled('[', ']', () => '[1,2]'),
  'small rows': filled('[', ']', (nth) => `{"a":${nth},"b":[],"c":""}`),
  'small numbers': filled('[', ']', () => '1'),
  'a string of Unicode escapes': `"${'\\u00e9'.repeat(0.15 * MIB)}"`,
  'one name repeated': filled('{', '}', () => '"a":1'),
}
const TOO_MANY_NAMES = new Set(Object.keys(SHAPES).slice(0, 5))

const TOO_MANY_CONTAINERS = new Set(['nested arrays'])

const LETTERS = 'abcdefghijklmnopqrstuvwxyz'.split('')
const shuffled = (nth: number) => {
  const placeOf = (letter: string) => Math.imul(letter.charCodeAt(0) * 2_654_435_761, nth + 3) >>> 0
  return LETTERS.toSorted((a, b) => placeOf(a) - placeOf(b))
}
const row = (names: readonly string[], value = 0) => `{${names.map((name) => `"${name}":${value}`).join()}}`
/** Objects whose layouts V8 cannot share. */
const DEAR = {
  'the same members in many different orders': filled('[', ']', (nth) => row(shuffled(nth))),
  'single-member objects with many different names': filled('[', ']', (nth) =>
    row([(nth % 19_000).toString(36)]),
  ),
  'many different pairs of a few hundred names': filled('[', ']', (nth) =>
    row([`a${nth % 250}`, `b${Math.floor(nth / 250) % 250}`]),
  ),
}
const CHEAP = {
  'rows with optional members': filled('[', ']', (nth) =>
    row(LETTERS.filter((_, at) => at > 7 || ((nth >> at) & 1) === 0)),
  ),
  'rows of 2,000 columns': filled('[', ']', (nth) =>
    row(
      Array.from({ length: 2_000 }, (_, at) => `c${at}`),
      nth,
    ),
  ),
  'an object of 19,000 rows': filled(
    '{',
    '}',
    (nth) => `"${(nth % 19_000).toString(36)}":${row(['a', 'b'])}`,
  ),
  'equal rows after objects with many different names': filled(
    '[',
    ']',
    (nth) => (nth < 1_600 ? row([`k${nth}`]) : row(['id', 'v'], nth)),
    2 * MIB,
  ),
  'rows with string ids': filled('[', ']', (nth) => `{"id":"A${nth}","v":1}`),
}

/** A one-megabyte body may block the thread for at most this long at a time (B 2). */
const MAX_TURN_MS = 50
/** Parsing is one call that can't be interrupted; on a loaded machine it alone may exceed the limit. */
const PARSE_FACTOR = 1.5
const ATTEMPTS = 3

/** Returns the CPU time of one call, in milliseconds. */
function cpuMs(work: () => unknown): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1_000
}

describe('bodies that are expensive to parse', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  before(async () => {
    api = await startApi({ env: { HEARTH_RATE_LIMIT: '0', HEARTH_FEATURES: 'webhooks' } })
    caller = await api.account()
  })
  after(() => api?.[Symbol.asyncDispose]())

  const id = newId()
  const mcp = (params: string) => `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`
  const BUILDER = '/api/builder/v1'
  const SURFACES: Readonly<Record<string, readonly [path: string, body: (value: string) => string]>> = {
    infer: [`${BUILDER}/endpoints/${id}/infer`, (value) => `{"input":{"a":${value}}}`],
    'infer:async': [`${BUILDER}/endpoints/${id}/infer:async`, (value) => `{"input":{"a":${value}}}`],
    invoke: [`${BUILDER}/actions/nothing:invoke`, (value) => `{"input":{"a":${value}}}`],
    chat: ['/v1/chat/completions', (value) => `{"model":"x","messages":[],"logit_bias":${value}}`],
    completions: ['/v1/completions', (value) => `{"model":"x","prompt":"a","x":${value}}`],
    responses: ['/v1/responses', (value) => `{"model":"x","input":"a","x":${value}}`],
    embeddings: ['/v1/embeddings', (value) => `{"model":"x","input":${value}}`],
    plans: ['/api/v1/cohorts:plan', (value) => `{"stages":[],"edges":[],"sample_sizes":${value}}`],
    datasets: [`${BUILDER}/datasets`, (value) => `{"dataset_name":"a","storage_format":"csv","x":${value}}`],
    webhooks: [`${BUILDER}/webhook-endpoints`, (value) => `{"name":"a","x":${value}}`],
    'MCP tool arguments': ['/mcp', (value) => mcp(`{"name":"list_datasets","arguments":${value}}`)],
    'values in MCP tool arguments': ['/mcp', (value) => mcp(`{"name":"x","arguments":{"a":${value}}}`)],
    'MCP message metadata': ['/mcp', (value) => mcp(`{"name":"list_datasets","_meta":{"a":${value}}}`)],
  }

  const send = (path: string, raw: string) =>
    api.call('POST', path, {
      key: caller.key,
      raw,
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'x-account-id': caller.accountId,
        'idempotency-key': crypto.randomUUID(),
      },
    })

  for (const [surface, [path, bodyOf]] of Object.entries(SURFACES)) {
    it(`hold the gateway's thread only briefly in ${surface}`, async () => {
      for (const [shape, value] of Object.entries(SHAPES)) {
        const body = bodyOf(value)
        let answer: Awaited<ReturnType<typeof send>> | undefined
        const turns: number[] = []
        let limit = MAX_TURN_MS
        // The first request on a surface compiles its checks, and any of them may collect garbage left by others.
        do {
          turns.push(await longestTurnMs(async () => (answer = await send(path, body))))
          if (turns.at(-1)! >= limit) limit = Math.max(limit, PARSE_FACTOR * cpuMs(() => JSON.parse(body)))
        } while (Math.min(...turns) >= limit && turns.length < ATTEMPTS)
        const { status, text } = answer!

        assert.ok(Math.min(...turns) < limit, `${shape}: ${turns.join()} ms of CPU in a turn`)
        assert.ok(status < 500, `${shape}: ${status} ${text}`)
        if (TOO_MANY_NAMES.has(shape)) {
          assert.equal(status, 413, `${shape}: ${text}`)
          assert.match(text, /more than 20,000 different member names/)
        }
        if (TOO_MANY_CONTAINERS.has(shape)) {
          assert.equal(status, 413, `${shape}: ${text}`)
          assert.match(text, /lists and objects in [\d,]+ bytes/)
        }
      }
    })
  }

  it("hold the gateway's thread only briefly in a result from a node, which may belong to a tenant", async () => {
    const node = await signedNode(api)
    for (const shape of ['many names', 'nested arrays', 'small numbers'] as const) {
      const body = `{"inference_time_ms":1,"model_state":"cold","result":{"a":${SHAPES[shape]}}}`
      const statuses = new Set<number>()
      const turns: number[] = []
      const complete = async () =>
        void statuses.add((await node.post(`/api/v1/leases/${newId()}:complete`, body)).status)
      do turns.push(await longestTurnMs(complete))
      while (turns.at(-1)! >= MAX_TURN_MS && turns.length < ATTEMPTS)

      assert.ok(Math.min(...turns) < MAX_TURN_MS, `${shape}: ${turns.join()} ms of CPU in a turn`)
      assert.deepEqual([...statuses], [shape === 'small numbers' ? 404 : 422], shape)
    }
  })

  it('are accepted by infer as tables of 10,000 rows and 20 columns', async () => {
    const row = Object.fromEntries(Array.from({ length: 20 }, (_, nth) => [`column_${nth}`, nth / 7]))
    const body = JSON.stringify({ input: { instances: Array.from({ length: 10_000 }, () => row) } })
    const { status } = await send(`${BUILDER}/endpoints/${id}/infer`, body)

    assert.equal(status, 404)
  })

  it('are rejected when MCP arguments or messages have too many members', async () => {
    const [allowed, tooMany] = [MAX_MESSAGE_MEMBERS - 10, MAX_MESSAGE_MEMBERS + 1].map(namesOf)
    for (const [value, expected] of [
      [allowed, 200],
      [tooMany, 413],
    ] as const) {
      const args = await send('/mcp', mcp(`{"name":"list_datasets","arguments":${value}}`))
      const meta = await send('/mcp', mcp(`{"name":"list_datasets","_meta":{"a":{"b":${value}}}}`))
      const top = await send('/mcp', `{"method":"tools/list","id":1,"jsonrpc":"2.0",${value?.slice(1)}`)
      for (const { status, text } of [args, meta]) assert.equal(status, expected, text)
      assert.equal(top.status === 413, expected === 413, top.text)
      if (expected === 413) assert.match(args.text, /at most 2,000 members/)
    }
  })

  it('are rejected for too many member orders or too many short strings', async () => {
    const path = `${BUILDER}/endpoints/${id}/infer`
    const infer = (value: string) => send(path, `{"input":{"a":${value}}}`)
    const orders = await infer(DEAR['the same members in many different orders'])
    const texts = await infer(filled('[', ']', (nth) => `"${nth.toString(36)}"`, 3 * MIB))
    const rows = await infer(CHEAP['rows with optional members'])

    assert.deepEqual([orders.status, texts.status, rows.status], [413, 413, 404])
    assert.match(orders.text, /use the same members in the same order in all rows/)
    assert.match(texts.text, /different strings of up to 10 characters/)
  })

  it("yield the thread above 64 KB, so that another account's small request is answered in between", async () => {
    const other = await api.account()
    const table = filled('{"input":{"a":[', ']}}', (nth) => `{"a":${nth},"b":"text"}`, 0.5 * MIB)
    let open = 12
    const large = Array.from({ length: open }, () =>
      send(`${BUILDER}/endpoints/${id}/infer`, table).then(() => (open -= 1)),
    )
    const { status } = await api.call('GET', `${BUILDER}/me`, { key: other.key })
    assert.equal(status, 200)
    assert.ok(open > 4, `${open} large requests were still open`)
    await Promise.all(large)
  })
})

describe('object layouts in JSON', () => {
  const weigh = (text: string) => weighJson(Buffer.from(text))
  const isRefused = ({ unlike, shortTexts }: ReturnType<typeof weighJson>, bytes: number) =>
    unlike > Math.max(MAX_UNLIKE.count, bytes * MAX_UNLIKE.share) ||
    shortTexts > Math.max(MAX_SHORT_TEXTS.count, bytes * MAX_SHORT_TEXTS.share)

  for (const [name, text] of Object.entries(DEAR))
    it(`exceed the limit for ${name}`, () => {
      assert.ok(isRefused(weigh(text), text.length), JSON.stringify(weigh(text)))
    })
  for (const [name, text] of Object.entries(CHEAP))
    it(`stay within the limit for ${name}`, () => {
      assert.ok(!isRefused(weigh(text), text.length), JSON.stringify(weigh(text)))
    })

  it('are counted per body', () => {
    assert.equal(weigh('[{"a":1,"b":2},{"a":1,"b":2},{"b":1,"a":2}]').unlike, 4)
    assert.equal(weigh('[{"a":1,"b":2},{"a":"x","c":["x","y","0123456789a"]}]').unlike, 3)
    assert.equal(weigh('[{"a":1,"b":2},{"a":"x","c":["x","y","0123456789a"]}]').shortTexts, 2)
  })
})

const bodyOf = (owner: string, bytes = 100_000) => ({ owner, bytes, signal: new AbortController().signal })

describe('reading a large body', () => {
  it('lets other requests run between its steps', async () => {
    const order: string[] = []
    const others = setInterval(() => order.push('other'))
    function* steps(): Generator<void, void> {
      for (const step of ['weigh', 'parse', 'check']) {
        const until = performance.now() + 5
        while (performance.now() < until);
        order.push(step)
        yield
      }
    }
    const next = () => Promise.resolve(void order.push('handle'))
    await new BodyTurns().run(bodyOf('a'), steps(), next)
    clearInterval(others)

    assert.deepEqual(
      order.filter((what, nth) => what !== order[nth - 1]),
      ['weigh', 'other', 'parse', 'other', 'check', 'other', 'handle'],
    )
  })

  it('stops when its caller disconnects', async () => {
    const disconnect = new AbortController()
    function* steps(): Generator<void, void> {
      disconnect.abort(new Error('left'))
      yield
      assert.fail('must not be read')
    }
    const next = () => assert.fail('must not be handled')
    await assert.rejects(
      new BodyTurns().run({ ...bodyOf('a'), signal: disconnect.signal }, steps(), next),
      /left/,
    )
  })

  it("does not wait for other accounts' larger bodies, nor for their pauses", async () => {
    const turns = new BodyTurns()
    const order: string[] = []
    const reading = (body: ReturnType<typeof bodyOf>, name: string) => {
      function* steps(): Generator<void, void> {
        for (let step = 0; step < 3; step++) {
          const until = performance.now() + 10
          while (performance.now() < until);
          yield
        }
      }
      return turns.run(body, steps(), () => Promise.resolve(void order.push(name)))
    }

    await Promise.all([
      reading(bodyOf('a', 10_000_000), 'first of a'),
      reading(bodyOf('a', 10_000_000), 'second of a'),
      reading(bodyOf('b', 10_000_000), 'large of b'),
      reading(bodyOf('c'), 'small of c'),
      reading(bodyOf('d'), 'small of d'),
    ])

    assert.equal(order.length, 5)
    assert.equal(order.at(-1), 'second of a')
    assert.ok(order.indexOf('small of c') < order.indexOf('large of b'), order.join())
  })
})

describe('the weight of JSON', () => {
  const weigh = (text: string) => weighJson(Buffer.from(text))

  it('counts distinct names only', () => {
    assert.equal(weigh('[{"a":1,"b":"c"},{"a":2,"b":"d"}]').names, 2)
    assert.equal(weigh('["a:","b\\":",{"c" : "d"},{"e\\"f"\n:1}]').names, 2)
    assert.equal(weigh(namesOf(5_000)).names, 5_000)
    assert.ok(weigh(namesOf(MAX_JSON_NAMES + 100)).names > MAX_JSON_NAMES)
    assert.equal(weigh(namesOf(MAX_JSON_NAMES)).names, MAX_JSON_NAMES)
  })

  it('never counts a body as plain that checkShape rejects', () => {
    const refused = [
      '{"__proto__":1}',
      '{"a":[{"\\u005f_proto__" : 1}]}',
      '{"_\\u005fproto\\u005f_":1}',
      '[1e999]',
      '[-1E+400]',
      `[${'9'.repeat(400)}]`,
      `[${'9'.repeat(400)}.5]`,
      '['.repeat(65) + ']'.repeat(65),
      `${'{"a":'.repeat(65)}1${'}'.repeat(65)}`,
    ]
    for (const text of refused) {
      assert.throws(() => checkShape(JSON.parse(text)), text)
      assert.equal(weigh(text).isPlain, false, text)
    }
  })

  it('counts ordinary values as plain', () => {
    const plain = ['{"a":[1.5e-7,true,false,null,"1e999"]}', '['.repeat(64) + ']'.repeat(64), '"__proto__"']
    for (const text of plain) {
      assert.doesNotThrow(() => checkShape(JSON.parse(text)), text)
      assert.equal(weigh(text).isPlain, true, text)
    }
  })
})
