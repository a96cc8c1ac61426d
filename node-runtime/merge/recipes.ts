import { createHash } from 'node:crypto'
import type { Adapter, AdapterPart } from './adapter.ts'
import type { Checkpoint } from './checkpoint.ts'
import { inputIn, inputOf, type Recipe, SLICE, slicesOf, type WeightedModel, writeSlices } from './recipe.ts'
import type { Answer, Factors, Slice, Task } from './tasks.ts'

/** Spherical interpolation between two models, at the fraction `t` from the first to the second. */
export const slerp =
  ([first, second]: readonly [Checkpoint, Checkpoint], t: number): Recipe =>
  async ({ name, elements, out }, tools) => {
    const [a, b] = [inputIn(first, name), inputIn(second, name)]
    const slices = slicesOf(elements)
    const parts = await Promise.all(slices.map((slice) => tools.pool.run({ kind: 'dots', a, b, ...slice })))
    const { p, q } = slerpFactors(parts, t)
    await writeSlices(name, slices, {
      ...tools,
      make: (slice) => ({ kind: 'combine', a, b, p, q, out, ...slice }),
    })
  }

/** For vectors closer to parallel than this, linear interpolation is just as good and more accurate. */
const PARALLEL = 0.9995
const TINY = 1e-8

/** Returns the coefficients of both tensors, from the sums over their blocks in order. */
export function slerpFactors(
  parts: readonly Answer<Extract<Task, { kind: 'dots' }>>[],
  t: number,
): { p: number; q: number } {
  let [aa, bb, ab] = [0, 0, 0]
  for (const { sums } of parts) {
    for (let i = 0; i < sums.length; i += 3) {
      aa += sums[i] ?? 0
      bb += sums[i + 1] ?? 0
      ab += sums[i + 2] ?? 0
    }
  }
  const [sizeA, sizeB] = [Math.sqrt(aa), Math.sqrt(bb)]
  const cosine = ab / ((sizeA > TINY ? sizeA : 1) * (sizeB > TINY ? sizeB : 1))
  if (!(Math.abs(cosine) <= PARALLEL)) return { p: 1 - t, q: t }
  const angle = Math.acos(cosine)
  return { p: Math.sin((1 - t) * angle) / Math.sin(angle), q: Math.sin(t * angle) / Math.sin(angle) }
}

/** Drops elements of each model's difference from the base at random, and scales up the others to compensate. */
export const dare =
  (
    base: Checkpoint,
    models: readonly WeightedModel[],
    { density, seed }: { density: number; seed: number },
  ): Recipe =>
  async ({ name, elements, out }, tools) => {
    const from = inputIn(base, name)
    const limit = Math.max(0, Math.round(density * 2 ** 32) - 1)
    const inputs = models.map(({ model, weight }, m) => {
      const hash = createHash('sha256').update(`${seed}\0${name}\0${m}`).digest()
      const input = inputIn(model, name)
      return { input, scale: weight / density, key: hash.readUInt32LE(0), salt: hash.readUInt32LE(4) }
    })
    await writeSlices(name, slicesOf(elements), {
      ...tools,
      make: (slice) => ({ kind: 'dare', base: from, inputs, limit, out, ...slice }),
    })
  }

/**
 * Folds LoRA adapters into a base: W plus the weighted sum of their products, with each row scaled to its DoRA norm.
 * Tensors that an adapter saved in full replace those of the base.
 */
export const adapterMerge =
  (adapters: readonly { adapter: Adapter; weight: number }[]): Recipe =>
  async ({ name, source, elements, out }, tools) => {
    const parts = adapters.flatMap(({ adapter, weight }) => {
      const part = adapter.parts.get(name)
      return part ? [{ part, weight }] : []
    })
    if (parts.length === 0) {
      const saved = adapters.flatMap(({ adapter }) => adapter.saved.get(name) ?? [])
      const input = inputOf(saved[0] ?? source)
      const make = (slice: Slice) => ({ kind: 'copy' as const, input, out, ...slice })
      return writeSlices(name, slicesOf(elements), { ...tools, make })
    }
    const base = inputOf(source)
    const factors = parts.map(({ part, weight }) => factorsOf(part, weight))
    const lengths = parts[0]?.part.magnitude
    const magnitude = lengths && { magnitude: inputOf(lengths) }
    const [rows = 0, cols = 0] = source.shape
    const size = Math.max(1, Math.floor(SLICE / cols)) * cols
    await writeSlices(name, slicesOf(elements, size), {
      ...tools,
      make: (slice) => ({ kind: 'adapter', base, rows, cols, factors, ...magnitude, out, ...slice }),
    })
  }

function factorsOf({ a, b, rank, scaling, isTransposed }: AdapterPart, weight: number): Factors {
  const [left, right] = isTransposed ? [a, b] : [b, a]
  return { left: inputOf(left), right: inputOf(right), isTransposed, rank, scale: scaling * weight }
}
