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

/** An idle model and what it has of each pool. */
export interface PooledModel extends IdleModel {
  readonly heldByPool: readonly number[]
}

export interface RoomPlan<T> {
  /** The pools in which the room is, each with an equal part. */
  readonly pools: readonly number[]
  readonly victims: readonly T[]
}

/**
 * In which of a node's pools `neededMb` go, in `count` equal parts, and which idle models go for it. A pool with room as it
 * is comes first, the fullest of them, so that the large ones stay free for what fits nowhere else; then those whose
 * models were not used for longest. Undefined when too few pools can have a part's room.
 */
export function planRoom<T extends PooledModel>(
  { neededMb, count }: { neededMb: number; count: number },
  freeByPool: readonly number[],
  idle: readonly T[],
): RoomPlan<T> | undefined {
  const partMb = neededMb / count
  const inPool = (model: T, pool: number) => model.heldByPool[pool] ?? 0
  const plans = freeByPool.flatMap((freeMb, pool) => {
    const here = idle
      .filter((model) => inPool(model, pool) > 0)
      .map((model) => ({ ...model, memoryMb: inPool(model, pool), model }))
    const victims = planEviction(partMb, freeMb, here)
    return victims ? [{ pool, freeMb, victims: victims.map(({ model }) => model) }] : []
  })
  if (plans.length < count) return undefined
  const newest = (victims: readonly T[]) => Math.max(-Infinity, ...victims.map(({ lastUsed }) => lastUsed))
  const chosen = plans
    .map((plan) => ({ ...plan, newest: newest(plan.victims) }))
    .toSorted((a, b) => (a.newest === b.newest ? a.freeMb - b.freeMb : a.newest < b.newest ? -1 : 1))
    .slice(0, count)

  // One that goes for a pool may have room in another as well, where then fewer need go.
  const victims = new Set(chosen.flatMap((plan) => plan.victims))
  for (const model of [...victims].toSorted((a, b) => b.lastUsed - a.lastUsed)) {
    const others = [...victims].filter((one) => one !== model)
    const isEnough = chosen.every(
      ({ pool, freeMb }) => others.reduce((sum, one) => sum + inPool(one, pool), freeMb) >= partMb,
    )
    if (isEnough) victims.delete(model)
  }
  return { pools: chosen.map(({ pool }) => pool).toSorted((a, b) => a - b), victims: [...victims] }
}
