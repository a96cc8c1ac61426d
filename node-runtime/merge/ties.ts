import type { Checkpoint } from './checkpoint.ts'
import { inputIn, type Recipe, notFinite, slicesOf, type Weighted, writeSlices } from './recipe.ts'
import { MAGNITUDES } from './tasks.ts'

/** The least magnitude that is no number. */
const INFINITE = 0x7f80

/** Trims each model's difference to the base to its largest, elects a sign per element and takes the mean of what agrees. */
export function ties(base: Checkpoint, models: readonly Weighted[], density: number): Recipe {
  const tables = new Tables(models.length)
  return async ({ name, elements, out }, tools) => {
    const from = inputIn(base, name)
    const inputs = models.map(({ model }) => inputIn(model, name))
    const slices = slicesOf(elements)
    const keep = Math.max(1, Math.trunc(density * elements))
    const shared = slices.map(() => tables.take())
    await Promise.all(
      slices.map((slice, s) =>
        tools.pool.run({
          kind: 'magnitudes',
          base: from,
          inputs,
          tables: shared[s] ?? tables.take(),
          ...slice,
        }),
      ),
    )
    const trims = inputs.map((_, m) => {
      const counted = shared.map((one) => new Uint32Array(one, m * MAGNITUDES * 4, MAGNITUDES))
      // A NaN is neither up nor down: the election would lose it without a word.
      if (counted.some((table) => table.subarray(INFINITE).some((count) => count > 0))) throw notFinite(name)
      return trimOf(counted, keep)
    })
    tables.give(shared)
    await writeSlices(name, slices, {
      ...tools,
      make: (slice, s) => ({
        kind: 'ties',
        base: from,
        inputs: inputs.map((input, m) => ({
          input,
          weight: models[m]?.weight ?? 1,
          threshold: trims[m]?.threshold ?? 0,
          quota: trims[m]?.quotas[s] ?? 0,
        })),
        out,
        ...slice,
      }),
    })
  }
}

/** The magnitude above which everything is kept, and how many that equal it each slice may keep: in all exactly `keep`. */
export function trimOf(
  tables: readonly Uint32Array[],
  keep: number,
): { threshold: number; quotas: number[] } {
  let left = keep
  let threshold = MAGNITUDES - 1
  for (; threshold > 0; threshold--) {
    const here = tables.reduce((sum, table) => sum + (table[threshold] ?? 0), 0)
    if (here >= left) break
    left -= here
  }
  const quotas = tables.map((table) => {
    const quota = Math.min(left, table[threshold] ?? 0)
    left -= quota
    return quota
  })
  return { threshold, quotas }
}

/** Memory that threads count in, used again for one tensor after the other: it would outgrow the models otherwise. */
class Tables {
  readonly #bytes: number
  readonly #free: SharedArrayBuffer[] = []

  constructor(models: number) {
    this.#bytes = models * MAGNITUDES * 4
  }

  take(): SharedArrayBuffer {
    return this.#free.pop() ?? new SharedArrayBuffer(this.#bytes)
  }

  give(tables: readonly SharedArrayBuffer[]): void {
    this.#free.push(...tables)
  }
}
