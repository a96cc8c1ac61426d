import type { PlannerEdge, PlannerProblem, PlannerStage } from '../../domain/cohorts/planner/problem.ts'

export interface GraphShape {
  nodes: number
  stages: number
  models?: number
  sites?: number
}

const NODE_MB = [4_000, 8_000, 16_000, 32_000]
const MB = 1024 * 1024
/** Milliseconds per MB of a model: 500 MB/s from disk, and 50 MB/s over the network before that. */
const [READ_MS, FETCH_MS] = [2, 20]

/** Builds a layered graph and a pool of different nodes at several sites; transfers between sites are slow. */
export function randomProblem(
  chance: () => number,
  { nodes, stages: count, models = 200, sites = 8 }: GraphShape,
): PlannerProblem {
  const among = (from: number, to: number) => from + chance() * (to - from)
  const pick = (most: number) => Math.floor(chance() * most)
  const site = Int32Array.from({ length: nodes }, () => pick(sites))
  const slowness = Float64Array.from({ length: nodes }, () => among(0.5, 3))
  const freeMb = Float64Array.from({ length: nodes }, () => NODE_MB[pick(NODE_MB.length)]!)
  // On average, a node in a large pool has one model loaded and five more on disk; a small pool has every model.
  const [loaded, cached] = [Math.max(1 / models, 1 / nodes), Math.max(6 / models, 2 / nodes)]
  const pool = Array.from({ length: models }, () => {
    const memoryMb = Math.round(among(200, 6_000))
    const warmth = Float64Array.from({ length: nodes }, chance)
    const isLoaded = Uint8Array.from(warmth, (one) => (one < loaded ? 1 : 0))
    const loadMs = warmth.map((one) =>
      one < loaded ? 0 : memoryMb * (one < cached ? READ_MS : READ_MS + FETCH_MS),
    )
    return { memoryMb, isLoaded, loadMs }
  })
  const stages: PlannerStage[] = Array.from({ length: count }, () => {
    const model = pick(models)
    const { memoryMb, isLoaded, loadMs } = pool[model]!
    const work = among(50, 2_000)
    const earliestMs = new Float64Array(nodes)
    const runMs = new Float64Array(nodes)
    for (let node = 0; node < nodes; node++) {
      const queueMs = chance() < 0.5 ? 0 : among(0, 1_500)
      const fits = isLoaded[node] === 1 || memoryMb <= freeMb[node]!
      earliestMs[node] = fits ? Math.max(loadMs[node]!, queueMs) : Infinity
      runMs[node] = work * slowness[node]!
    }
    return { earliestMs, runMs, model, memoryMb, isLoaded }
  })
  return { stages, edges: layeredEdges(count, { pick, chance, site }), freeMb, spread: false }
}

interface Layering {
  pick: (most: number) => number
  chance: () => number
  site: Int32Array
}

/** Gives every stage after the first layer one to three producers in earlier layers. */
function layeredEdges(count: number, { pick, chance, site }: Layering): PlannerEdge[] {
  const layers = Math.max(2, Math.round(Math.sqrt(count) * 1.2))
  const firstOf = Array.from({ length: layers + 1 }, (_, layer) => Math.round((layer * count) / layers))
  const edges: PlannerEdge[] = []
  for (let layer = 1; layer < layers; layer++) {
    for (let to = firstOf[layer]!; to < firstOf[layer + 1]!; to++) {
      const producers = new Set<number>([firstOf[layer - 1]! + pick(firstOf[layer]! - firstOf[layer - 1]!)])
      for (let more = pick(3); more > 0; more--) producers.add(pick(firstOf[layer]!))
      const bytes = 10 ** (3 + chance() * 5)
      for (const from of producers) edges.push({ from, to, transferMs: transferOf(bytes, site) })
    }
  }
  return edges
}

function transferOf(bytes: number, site: Int32Array): PlannerEdge['transferMs'] {
  const near = 2 + (1_000 * bytes) / (500 * MB)
  const far = 90 + (1_000 * bytes) / (30 * MB)
  return (from, to) => (from === to ? 0 : site[from] === site[to] ? near : far)
}
