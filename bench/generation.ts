// Compares images from the generative server over HTTP with bare diffusers on the same weights, and measures how soon
// an aborted request frees the server for the next: npm run bench:generation [-- --rounds 5]. With a GPU: --size real
// --side 512.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { request } from 'undici'
import { pythonProcessEnv } from '../node-runtime/environments/python-env.ts'
import { saveOutput } from '../node-runtime/models/output-stream.ts'
import { runProgram } from '../platform/processes/run-program.ts'
import { llmPython } from '../test/support/builders/models/tiny-llm.ts'
import { startLineProgram } from './line-program.ts'
import { cpuSeconds, median } from './platform.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    size: { type: 'string', default: 'small' },
    side: { type: 'string', default: '64' },
    steps: { type: 'string', default: '20' },
  },
})
const [side, steps] = [Number(values.side), Number(values.steps)]
const SERVER = join(import.meta.dirname, '..', 'node-runtime', 'servers', 'generative_server.py')
const PROGRAMS = join(import.meta.dirname, 'generation')
const MAKE_TIMEOUT_MS = 600_000

const folder = mkdtempSync(join(tmpdir(), 'hearth-bench-generation-'))
await using stack = new AsyncDisposableStack()
stack.defer(() => rmSync(folder, { recursive: true, force: true }))

const python = await llmPython()
await runProgram(python, [join(PROGRAMS, 'model.py'), folder, values.size], {
  env: pythonProcessEnv({ OMP_NUM_THREADS: '1', HF_HUB_OFFLINE: '1' }),
  timeout: MAKE_TIMEOUT_MS,
})
const server = stack.use(
  await startLineProgram(python, [SERVER, '--model', folder, '--port', '0', '--threads', '1']),
)
const peer = stack.use(
  await startLineProgram(python, [join(PROGRAMS, 'peer.py'), folder, values.side, values.steps]),
)
const { port } = JSON.parse(server.first) as { port: number }

/** Requests an image; `onStep` may abort. Returns the times of the steps. */
async function generateOnce(seed: number, signal?: AbortSignal, onStep: (step: number) => void = () => {}) {
  const input = { prompt: 'a boat', width: side, height: side, num_inference_steps: steps, seed }
  const answer = await request(`http://127.0.0.1:${port}/infer/text-to-image`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(input),
    headersTimeout: 0,
    bodyTimeout: 0,
    ...(signal && { signal }),
  })
  if (answer.statusCode !== 200) throw new Error(`${answer.statusCode}: ${await answer.body.text()}`)
  const times: number[] = []
  await saveOutput(answer.body, {
    onStep: (step) => {
      times.push(performance.now())
      onStep(step)
    },
  })
  return times
}

const [ours, theirs, lengths]: number[][] = [[], [], []]
const [cpuOurs, cpuTheirs]: number[][] = [[], []]
await generateOnce(0)
await peer.seconds('0')
for (let round = 1; round <= Number(values.rounds); round++) {
  const [began, cpu] = [performance.now(), cpuSeconds(server.pid)]
  const times = await generateOnce(round)
  ours?.push((performance.now() - began) / 1_000)
  cpuOurs?.push(cpuSeconds(server.pid) - cpu)
  if (times.length !== steps) throw new Error(`${times.length} of ${steps} steps were reported`)
  lengths?.push((times.at(-1)! - times[0]!) / (steps - 1))
  const alone = await peer.seconds(String(round))
  theirs?.push(alone.clock)
  cpuTheirs?.push(alone.cpu)
}
const [own = [], other = [], ownCpu = [], otherCpu = [], stepMs = []] = [
  ours,
  theirs,
  cpuOurs,
  cpuTheirs,
  lengths,
]
const formatTimes = (clock: number[], cpu: number[]) =>
  `${median(clock).toFixed(2)} s per image, ${median(cpu).toFixed(2)} s of CPU`
console.log(`server over HTTP   ${formatTimes(own, ownCpu)}, all ${steps} steps reported`)
console.log(`diffusers alone    ${formatTimes(other, otherCpu)}`)
console.log(`${(median(own) / median(other)).toFixed(2)} times`)

// The next request starts at the end of the step during which the first caller disconnected.
const waits: number[] = []
for (let round = 0; round < Number(values.rounds); round++) {
  const leaving = new AbortController()
  let leftAt = 0
  const left = generateOnce(1, leaving.signal, (step) => {
    if (step !== Math.ceil(steps / 2)) return
    leftAt = performance.now()
    leaving.abort()
  }).catch(() => {})
  await left
  const [first = 0] = await generateOnce(2)
  waits.push(first - leftAt)
}
const inSteps = median(waits) / median(stepMs)
console.log(
  `a step takes ${median(stepMs).toFixed(0)} ms; the first step of the next request is reported ${median(waits).toFixed(0)} ms after a caller disconnects, ${inSteps.toFixed(1)} steps, including its own first step and its text`,
)
