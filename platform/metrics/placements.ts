import type { Metrics } from './metrics.ts'

/** Returns a function that counts a search for a node, by whether it found one. */
export function countPlacements(metrics: Metrics): (isPlaced: boolean) => void {
  const placed = metrics.counter('hearth.placements', { result: 'placed' })
  const noNode = metrics.counter('hearth.placements', { result: 'no_node' })
  return (isPlaced) => (isPlaced ? placed : noNode).add(1)
}
