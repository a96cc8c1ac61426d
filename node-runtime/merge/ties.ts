import type { Checkpoint } from './checkpoint.ts'
import { inputIn, type Recipe, notFinite, slicesOf, type WeightedModel, writeSlices } from './recipe.ts'
import { MAGNITUDES } from './tasks.ts'

/** The magnitude of infinity; larger ones are NaN. */
const INFINITE = 0x7f80

/**
 * Trims each model's difference from the base to its largest elements, elects a sign per element, and takes the mean of
 * the contributions of that sign.
 */
export function ties(base: Checkpoint, models: readonly WeightedModel[], density: number): Recipe {
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
      // A NaN has no sign, so the election would silently drop it.
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

/**
 * Returns the magnitude above which every element is retained, and the number of elements equal to it that each slice
 * may retain, so that exactly `keep` are retained in total.
 */
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

/**
 * Shared memory in which threads count magnitudes. It is reused from tensor to tensor, because new tables for each
 * would exceed the size of the models.
 */
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
