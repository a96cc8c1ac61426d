export interface IdleModel {
  modelKey: string
  memoryMb: number
  lastUsed: number
}

/**
 * Chooses the idle models to evict so that `neededMb` fit, least recently used first. The list is empty if they already
 * fit, and omits models that needn't be evicted once the others are. Undefined when evicting all of them is not enough.
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

  // The last model chosen may be so large that smaller, older ones can stay.
  for (const model of chosen.toReversed()) {
    if (free - model.memoryMb < neededMb) continue
    free -= model.memoryMb
    chosen.splice(chosen.indexOf(model), 1)
  }
  return chosen
}

/** An idle model, and the memory that it uses in each pool. */
export interface PooledModel extends IdleModel {
  readonly heldByPool: readonly number[]
}

export interface EvictionPlan<T> {
  /** The chosen pools; each holds an equal part. */
  readonly pools: readonly number[]
  readonly victims: readonly T[]
}

/**
 * Chooses the pools of a node for `neededMb` in `count` equal parts, and the idle models to evict for them. Pools with
 * enough free memory come first, the fullest of them before others, so that large pools stay free for models that fit
 * nowhere else. Then come the pools whose models have been idle the longest. Undefined when too few pools can hold a
 * part.
 */
export function chooseEviction<T extends PooledModel>(
  { neededMb, count }: { neededMb: number; count: number },
  freeByPool: readonly number[],
  idle: readonly T[],
): EvictionPlan<T> | undefined {
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

  // A model that spans pools frees memory in each of them, so some of the other victims may stay.
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
