// Watches the copies of a language model on two llama.cpp nodes while the number of clients grows from 0 to 100 and
// shrinks again: npm run bench:copies [-- --clients 100 --seconds 30 --idle 20]. Fails if a request is lost, if copies
// overshoot more than once, or if the idle model isn't unloaded or doesn't answer afterwards.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { writeTinyGguf } from '../embedded/demo/tiny-gguf.ts'
import type { Scaling } from '../schemas/scaling.ts'
import { stopDatabases } from '../test/support/servers/database.ts'
import { startInferenceWorld } from '../test/support/servers/worlds/inference-world.ts'
import { percentile } from './platform.ts'
import { endWith } from './rounds.ts'

const { values } = parseArgs({
  options: {
    clients: { type: 'string', default: '100' },
    seconds: { type: 'string', default: '30' },
    idle: { type: 'string', default: '20' },
  },
})
const [clients, seconds, idleS] = [Number(values.clients), Number(values.seconds), Number(values.idle)]
const PIECES = Array.from({ length: 60 }, (_, i) => (i ? ` piece${i}` : 'piece0'))
const POLL_INTERVAL_MS = 250
/** Copies may be unloaded one after the other, each after its idle timeout. */
const MAX_IDLE_MS = 2_000 * idleS + 60_000

const folder = mkdtempSync(join(tmpdir(), 'hearth-bench-copies-'))
await using _databases = { [Symbol.asyncDispose]: stopDatabases }
await using stack = new AsyncDisposableStack()
stack.defer(() => rmSync(folder, { recursive: true, force: true }))
const path = join(folder, 'model.gguf')
await writeTinyGguf(path, { answer: PIECES, context: 2_048 })

const world = stack.use(await startInferenceWorld())
stack.use(await world.control())
const options = { realCatalog: true, memoryMb: 4_000, accountId: world.accountId }
const nodes = [stack.use(await world.node(options)), stack.use(await world.node(options))]
const model = await world.import({ name: 'popular', path, task: 'chat' })
const scaling = (method: string, body?: object): Promise<{ status: number; body: Scaling }> =>
  world.api.call(method, `/api/builder/v1/endpoints/${model.endpoint_id}/scaling`, {
    key: world.key,
    ...(body && { body }),
  })
const loaded = () =>
  nodes.filter(({ parts }) => parts.models.startState(model.model_key) === 'resident').length

const waits: number[] = []
const failures = new Map<string, number>()
let [answered, refused] = [0, 0]
/** Sends one chat, and retries it after a `Retry-After`, as clients of OpenAI's API do. */
async function sendUntilOver(isOver: () => boolean = () => false): Promise<void> {
  const began = performance.now()
  for (;;) {
    const { status, body, headers } = await world.api.call('POST', '/v1/chat/completions', {
      key: world.key,
      body: {
        model: model.endpoint_id,
        messages: [{ role: 'user', content: 'hi' }],
        max_tokens: PIECES.length + 4,
      },
    })
    if (status === 429 && headers['retry-after'] !== undefined) {
      refused++
      if (isOver()) return
      await sleep(1_000 * Number(headers['retry-after']))
    } else if (status === 200 && body.choices[0].message.content === PIECES.join('')) {
      answered++
      waits.push(performance.now() - began)
      return
    } else {
      const what = `${status} ${JSON.stringify(body).slice(0, 200)}`
      failures.set(what, (failures.get(what) ?? 0) + 1)
      return
    }
  }
}

const began = performance.now()
const watching = new AbortController()
const watch = (async () => {
  for (let shown = -1; !watching.signal.aborted; await sleep(POLL_INTERVAL_MS)) {
    const copies = loaded()
    if (shown !== copies) {
      const at = (performance.now() - began) / 1_000
      shown = copies
      console.log(
        `${at.toFixed(1).padStart(6)} s  ${copies} loaded, ${answered} answered, ${refused} refused`,
      )
    }
  }
})()

await scaling('PUT', { max: 2, idle_timeout_s: idleS })
console.log(`${clients} clients for ${seconds} s`)
let isOver = false
const work = Promise.all(
  Array.from({ length: clients }, async () => {
    while (!isOver) await sendUntilOver(() => isOver)
  }),
)
await sleep(seconds * 1_000)
isOver = true
await work
console.log('no clients')
const overAt = performance.now()
while (loaded() > 0 && performance.now() - overAt < MAX_IDLE_MS) await sleep(POLL_INTERVAL_MS)
const emptyAfterMs = performance.now() - overAt
const isEmpty = loaded() === 0
const { changes } = (await scaling('GET')).body
const before = answered
await sendUntilOver()
watching.abort()
await watch

const counts = changes.map(({ to }) => to).toReversed()
for (const { at, from, to, reason } of changes.toReversed()) console.log(`${at}  ${from} -> ${to}: ${reason}`)
for (const [what, times] of failures) console.log(`${times} times ${what}`)
console.log(
  `wanted ${counts.join(', ')}; ${answered} answered (p50 ${percentile(waits, 0.5).toFixed(0)} ms, p99 ${percentile(waits, 0.99).toFixed(0)} ms with retries), ${refused} refused with Retry-After; unloaded after ${(emptyAfterMs / 1_000).toFixed(1)} s`,
)
/** Counts an increase after a decrease, or a decrease before the clients left. */
const overshoots = counts.filter(
  (to, i) => i > 1 && to > counts[i - 1]! && counts[i - 1]! < counts[i - 2]!,
).length
endWith(
  failures.size === 0 &&
    answered === before + 1 &&
    isEmpty &&
    counts[0] === 1 &&
    Math.max(...counts) === 2 &&
    counts.at(-1) === 0 &&
    overshoots <= 1,
)
