export interface IdleModel {
  modelKey: string
  memoryMb: number
  lastUsed: number
}

/**
 * Which idle models go so that `neededMb` fit: none when they fit already, undefined when even all of them
 * would not do. Least recently used first; none goes that the others make unnecessary.
 */
export function planEviction<T extends IdleModel>(
  neededMb: number,
  freeMb: number,
  idle: readonly T[],
): T[] | undefined {
  const chosen: T[] = []
  let free = freeMb
  for (const model of idle.toSorted((a, b) => a.lastUsed - b.lastUsed)) {
    if (free >= neededMb) break
    chosen.push(model)
    free += model.memoryMb
  }
  if (free < neededMb) return undefined

  // The one that tipped the scale may be so large that smaller, older ones need not go.
  for (const model of chosen.toReversed()) {
    if (free - model.memoryMb < neededMb) continue
    free -= model.memoryMb
    chosen.splice(chosen.indexOf(model), 1)
  }
  return chosen
}
