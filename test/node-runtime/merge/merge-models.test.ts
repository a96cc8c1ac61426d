import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { mergeModels, type MergeOptions, type MergeSpec } from '../../../node-runtime/merge/merge-models.ts'
import { readTensors } from '../../../node-runtime/merge/safetensors.ts'
import {
  bf16,
  readCheckpoint,
  readWide,
  type Tensor,
  type TinyCheckpoint,
  writeAdapter,
  writeCheckpoint,
} from '../../support/builders/models/checkpoints.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

describe('model merges', () => {
  let folder: ReturnType<typeof temporaryFolder>

  beforeEach(() => {
    folder = temporaryFolder()
  })
  afterEach(() => folder[Symbol.dispose]())

  const at = (name: string) => join(folder.path, name)
  const model = (name: string, options: TinyCheckpoint = {}) => writeCheckpoint(at(name), options)
  const use = (name: string, weight = 1) => ({ dir: at(name), label: name, weight })
  const merge = (spec: MergeSpec, options: Partial<MergeOptions> = {}) =>
    mergeModels(spec, { outDir: at('out'), threads: 2, ...options })
  const result = () => readCheckpoint(at('out'))
  /** Compares every number of the result with a plain JavaScript computation on the same inputs. */
  const assertEach = async (tensors: Map<string, Tensor>, expected: (name: string, i: number) => number) => {
    const found = await result()
    assert.deepEqual([...found.keys()].toSorted(), [...tensors.keys()].toSorted())
    for (const [name, values] of found) {
      values.forEach((value, i) => {
        const wanted = expected(name, i)
        const step = Math.max(Math.abs(wanted) * 2 ** -7, 1e-6)
        assert.ok(Math.abs(value - wanted) <= step, `${name}[${i}]: ${value} instead of ${wanted}`)
      })
    }
  }
  const value = (tensors: Map<string, Tensor>, name: string, i: number) =>
    bf16(tensors.get(name)?.values[i] ?? Number.NaN)

  describe('slerp', () => {
    it('interpolates along the arc between two models, according to their weights', async () => {
      const a = model('a', { seed: 1, spread: 2 })
      const b = model('b', { seed: 2, spread: 2 })
      await merge({ method: 'slerp', sources: [use('a', 1), use('b', 3)] })

      const factors = new Map(
        [...a].map(([name, { values }]) => {
          const [one, two] = [values.map(bf16), (b.get(name)?.values ?? values).map(bf16)]
          const dot = (x: Float32Array, y: Float32Array) => x.reduce((sum, v, i) => sum + v * (y[i] ?? 0), 0)
          const angle = Math.acos(dot(one, two) / Math.sqrt(dot(one, one) * dot(two, two)))
          return [name, [Math.sin(0.25 * angle), Math.sin(0.75 * angle)].map((x) => x / Math.sin(angle))]
        }),
      )
      await assertEach(a, (name, i) => {
        const [p = 0, q = 0] = factors.get(name) ?? []
        return p * value(a, name, i) + q * value(b, name, i)
      })
    })

    it('interpolates linearly if both models point in the same direction', async () => {
      const a = model('a', { seed: 1, spread: 0.001 })
      const b = model('b', { seed: 2, spread: 0.001 })

      await merge({ method: 'slerp', sources: [use('a'), use('b')] })

      await assertEach(a, (name, i) => (value(a, name, i) + value(b, name, i)) / 2)
    })
  })

  describe('ties', () => {
    it('keeps the largest differences, elects signs and averages the differences that agree', async () => {
      const base = model('base')
      const models = [model('a', { seed: 1 }), model('b', { seed: 2 }), model('c', { seed: 3 })]
      const weights = [1, 2, 0.5]
      const sources = ['a', 'b', 'c'].map((name, i) => use(name, weights[i]))
      await merge({ method: 'ties', base: use('base'), sources, density: 0.3 })

      const kept = new Map(
        [...base].map(([name, { values }]) => [
          name,
          models.map((one) => {
            const deltas = values.map((_, i) => bf16(value(one, name, i) - value(base, name, i)))
            const order = [...deltas.keys()].toSorted(
              (x, y) => Math.abs(deltas[y] ?? 0) - Math.abs(deltas[x] ?? 0),
            )
            const chosen = new Set(order.slice(0, Math.max(1, Math.trunc(0.3 * deltas.length))))
            return deltas.map((delta, i) => (chosen.has(i) ? delta : 0))
          }),
        ]),
      )
      await assertEach(base, (name, i) => {
        const parts = (kept.get(name) ?? []).map((deltas, m) => ({
          part: (deltas[i] ?? 0) * (weights[m] ?? 0),
          weight: weights[m] ?? 0,
        }))
        const isUp = parts.reduce((sum, { part }) => sum + part, 0) >= 0
        const agreeing = parts.filter(({ part }) => (isUp ? part > 0 : part < 0))
        const total = agreeing.reduce((sum, { weight }) => sum + weight, 0)
        const mean = total > 0 ? agreeing.reduce((sum, { part }) => sum + part, 0) / total : 0
        return value(base, name, i) + mean
      })
    })
  })

  describe('dare', () => {
    it('adds the weighted differences if nothing is dropped', async () => {
      const base = model('base')
      const [a, b] = [model('a', { seed: 1 }), model('b', { seed: 2 })]

      const sources = [use('a', 0.5), use('b', 0.25)]
      await merge({ method: 'dare', base: use('base'), sources, density: 1, seed: 7 })

      await assertEach(base, (name, i) => {
        const from = value(base, name, i)
        return from + 0.5 * (value(a, name, i) - from) + 0.25 * (value(b, name, i) - from)
      })
    })

    it('keeps each difference with a probability equal to the density, and scales it up to compensate', async () => {
      const size = { hidden: 96, change: zeroed }
      model('base', size)
      model('a', { ...size, change: (tensors) => filled(tensors, 0.25) })

      await merge({ method: 'dare', base: use('base'), sources: [use('a')], density: 0.25, seed: 3 })

      const all = [...(await result()).values()].flatMap((values) => [...values])
      assert.deepEqual(new Set(all), new Set([0, 1]))
      const share = all.filter((one) => one === 1).length / all.length
      // Allow five standard deviations for that many independent draws.
      assert.ok(Math.abs(share - 0.25) < 5 * Math.sqrt((0.25 * 0.75) / all.length), String(share))
    })

    it('draws independently for every model, tensor and seed', async () => {
      const size = { hidden: 96, change: zeroed }
      model('base', size)
      for (const name of ['a', 'b']) model(name, { ...size, change: (tensors) => filled(tensors, 0.25) })
      const run = async (sources: string[], seed: number) => {
        const spec = { method: 'dare' as const, base: use('base'), density: 0.5, seed }
        await merge({ ...spec, sources: sources.map((name) => use(name)) })
        return result()
      }
      const both = await run(['a', 'b'], 1)
      const [one, other] = [await run(['a'], 1), await run(['a'], 2)]

      const query = 'model.layers.0.self_attn.q_proj.weight'
      const key = 'model.layers.0.self_attn.k_proj.weight'
      const share = (x: Float32Array, y: Float32Array) => x.filter((v, i) => v === y[i]).length / x.length
      const get = (from: Map<string, Float32Array>, name: string) => from.get(name) ?? new Float32Array()
      for (const same of [share(get(one, query), get(one, key)), share(get(one, query), get(other, query))]) {
        assert.ok(Math.abs(same - 0.5) < 0.05, String(same))
      }
      const twice = get(both, query).filter((v) => v === 1).length / get(both, query).length
      assert.ok(Math.abs(twice - 0.25) < 0.05, String(twice))
    })
  })

  describe('adapter_merge', () => {
    const module = 'model.layers.1.mlp.down_proj'
    const shape = { [module]: [24, 48] as [number, number] }
    const product = ({ a, b, rank }: { a: Float32Array; b: Float32Array; rank: number }, i: number) => {
      const [row, col] = [Math.floor(i / 48), i % 48]
      let sum = 0
      for (let k = 0; k < rank; k++) sum += (b[row * rank + k] ?? 0) * (a[k * 48 + col] ?? 0)
      return sum
    }

    it('adds the weighted products of several adapters to the base', async () => {
      const base = model('base')
      const one = writeAdapter(at('one'), { rank: 3, seed: 1, modules: shape })
      const two = writeAdapter(at('two'), { rank: 16, seed: 2, modules: shape, config: { use_rslora: true } })

      await merge({ method: 'adapter_merge', base: use('base'), sources: [use('one', 0.5), use('two', -2)] })

      await assertEach(base, (name, i) => {
        const [x, y] = [one.get(name), two.get(name)]
        if (!x || !y) return value(base, name, i)
        return value(base, name, i) + 0.5 * 2 * product(x, i) - 2 * (32 / Math.sqrt(16)) * product(y, i)
      })
    })

    it('warns about an adapter trained on another base of the same shape', async () => {
      model('base')
      for (const [name, base] of [
        ['own', 'Acme/Tiny'],
        ['other', 'acme/other'],
        ['nameless', undefined],
      ] as const)
        writeAdapter(at(name), { modules: shape, config: base ? { base_model_name_or_path: base } : {} })
      const notes: string[] = []
      const sources = [use('own'), use('other'), use('nameless')]

      await merge(
        {
          method: 'adapter_merge',
          base: { ...use('base'), names: ['acme/tiny', 'hearth://model_version/1'] },
          sources,
        },
        { onNote: (note) => notes.push(note) },
      )

      const warnings = notes.filter((note) => note.startsWith('Warning: '))
      assert.equal(warnings.length, 1)
      assert.match(warnings[0] ?? '', /^Warning: other was trained on acme\/other, but base is acme\/tiny\./)
    })

    it('handles transposed factors and per-module alphas', async () => {
      const base = model('base')
      const config = { fan_in_fan_out: true, alpha_pattern: { down_proj: 10 } }
      const factors = writeAdapter(at('one'), { rank: 4, config, modules: { [module]: [48, 24] } })

      await merge({ method: 'adapter_merge', base: use('base'), sources: [use('one')] })

      await assertEach(base, (name, i) => {
        const one = factors.get(name)
        if (!one) return value(base, name, i)
        const [row, col] = [Math.floor(i / 48), i % 48]
        let sum = 0
        for (let k = 0; k < 4; k++) sum += (one.b[col * 4 + k] ?? 0) * (one.a[k * 24 + row] ?? 0)
        return value(base, name, i) + (10 / 4) * sum
      })
    })

    it('reads f16 factors at full precision', async () => {
      model('base', { change: zeroed })
      const factors = writeAdapter(at('one'), { rank: 1, modules: shape, dtype: 'F16' })
      const one = factors.get(`${module}.weight`)
      assert.ok(one)
      const stored = { a: halved(one.a), b: halved(one.b), rank: 1 }

      await merge({ method: 'adapter_merge', base: use('base'), sources: [use('one')] })

      const found = (await result()).get(`${module}.weight`) ?? new Float32Array()
      assert.deepEqual(
        [...found],
        Array.from(found, (_, i) => bf16(2 * product(stored, i))),
      )
    })

    it('rescales rows for DoRA, and replaces tensors of the base that the adapter saved in full', async () => {
      const base = model('base')
      const saved = { lm_head: [50, 24] as [number, number] }
      const factors = writeAdapter(at('one'), { rank: 3, modules: shape, dora: true, saved })
      const written = await readWide(at('one/adapter_model.safetensors'))
      const lengths = written.get(`base_model.model.${module}.lora_magnitude_vector`)

      await merge({ method: 'adapter_merge', base: use('base'), sources: [use('one')] })

      const sum = (name: string, i: number) => {
        const one = factors.get(name)
        return value(base, name, i) + (one ? 2 * product(one, i) : 0)
      }
      await assertEach(base, (name, i) => {
        if (name === 'lm_head.weight') return written.get(`base_model.model.${name}`)?.[i] ?? Number.NaN
        if (!factors.has(name)) return value(base, name, i)
        const row = Math.floor(i / 48)
        const numbers = Array.from({ length: 48 }, (_, col) => sum(name, row * 48 + col))
        return (sum(name, i) * (lengths?.[row] ?? Number.NaN)) / Math.hypot(...numbers)
      })
    })
  })

  it('read shards of mixed types and write bf16 shards, with config and tokenizer', async () => {
    const base = model('base', { shards: 3, dtypes: { mlp: 'F32', norm: 'F16' } })
    const a = model('a', { seed: 1, dtype: 'F32' })

    const sources = [use('a')]
    await merge({ method: 'dare', base: use('base'), sources, density: 1, seed: 0 }, { maxShardBytes: 8_000 })

    await assertEach(base, (name, i) => value(a, name, i))
    const index = JSON.parse(readFileSync(at('out/model.safetensors.index.json'), 'utf8'))
    const files = new Set(Object.values<string>(index.weight_map))
    assert.ok(files.size > 1 && existsSync(at(`out/model-00001-of-0000${files.size}.safetensors`)))
    assert.equal(JSON.parse(readFileSync(at('out/config.json'), 'utf8')).torch_dtype, 'bfloat16')
    assert.deepEqual(readFileSync(at('out/tokenizer.json')), readFileSync(at('base/tokenizer.json')))
    for (const file of files) {
      for (const { dtype } of (await readTensors(at(`out/${file}`), file)).values())
        assert.equal(dtype, 'BF16')
    }
  })

  it('accept tied models even if one of them stores its output embedding', async () => {
    model('a', { seed: 1, tied: true })
    const { tensors_total } = await merge({ method: 'slerp', sources: [use('a'), use('a')] })
    model('b', {
      seed: 2,
      tied: true,
      change: (tensors) => tensors.set('lm_head.weight', tensors.get('model.embed_tokens.weight')!),
    })

    const done = await merge({ method: 'slerp', sources: [use('a'), use('b')] })

    assert.equal(done.tensors_done, tensors_total)
  })
})

const zeroed = (tensors: Map<string, Tensor>) => filled(tensors, 0)
const filled = (tensors: Map<string, Tensor>, number: number) => {
  for (const { values } of tensors.values()) values.fill(number)
}
/** Rounds the values as storing them in f16 would. */
const halved = (values: Float32Array) => new Float32Array(new Float16Array(values))
