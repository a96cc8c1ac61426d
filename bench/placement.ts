import type { NodeSnapshot } from '../domain/placement/node-snapshot.ts'
import { PlacementIndex } from '../domain/placement/placement.ts'
import type { NodeModel } from '../schemas/nodes/node.ts'
import { median } from './platform.ts'
import { endWith, unlessOnce } from './rounds.ts'

// Placement decisions per second while node reports keep changing: 1,000 nodes, 200 models, one report per two
// decisions.

const NODES = 1_000
const MODELS = 200
const PER_NODE = 6
const DECISIONS = unlessOnce(100_000, 1_000)
const ROUNDS = unlessOnce(5)
const FLOOR = 50_000
const PROFILES = ['tabular', 'llm', 'generative']
const STATES = ['warm', 'idle', 'running', 'evicted', 'loading_model'] as const

let seed = 20_261
/** A small random generator with a fixed seed, so that all runs are the same. */
const random = () => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  return seed / 2 ** 32
}
const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!
const modelKey = (i: number) => `model-${i}`

const model = (): NodeModel => {
  const state = pick(STATES)
  return {
    model_key: modelKey(Math.floor(random() * MODELS)),
    state,
    in_flight: state === 'running' ? 1 : 0,
    memory_mb: 200 + Math.floor(random() * 2_000),
  }
}

const report = (i: number): NodeSnapshot => ({
  node_id: `node-${i}`,
  account_id: `account-${i % 10}`,
  sharing: i % 5 === 0 ? 'dedicated' : 'shared',
  hardware: i % 4 === 0 ? 'gpu' : 'cpu',
  profiles: PROFILES,
  cpus: 8,
  memory_total_mb: 32_000,
  memory_free_mb: Math.floor(random() * 16_000),
  load: random(),
  draining: i % 97 === 0,
  models: Array.from({ length: PER_NODE }, model),
})

const index = new PlacementIndex()
for (let i = 0; i < NODES; i++) index.put(report(i))
const reports = Array.from({ length: 20_000 }, () => report(Math.floor(random() * NODES)))

let placed = 0
const rates: number[] = []
for (let round = 0; round < ROUNDS; round++) {
  const began = performance.now()
  for (let i = 0; i < DECISIONS; i++) {
    if (i % 2 === 0) index.put(reports[(i / 2) % reports.length]!)
    const model_key = modelKey(i % (MODELS + 20))
    const need = {
      model_key,
      account_id: `account-${i % 20}`,
      runtime_profile: 'tabular',
      memory_mb: 4_000,
      now: 0,
    }
    if (index.place(need, random).chosen) placed++
  }
  rates.push(DECISIONS / ((performance.now() - began) / 1_000))
}
const rate = Math.round(median(rates))

console.log(`nodes ${NODES}, models ${MODELS}, one report applied per two decisions`)
console.log(
  `decisions per second: ${rate.toLocaleString('en')} (goal: at least ${FLOOR.toLocaleString('en')})`,
)
console.log(`placed: ${((100 * placed) / (ROUNDS * DECISIONS)).toFixed(1)} %`)
console.log(`ratio: ${(rate / FLOOR).toFixed(2)}`)
endWith(rate >= FLOOR)
