import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { mergeModels, type MergeOptions, type MergeSpec } from '../../../node-runtime/merge/merge-models.ts'
import { buildKernels } from '../../../scripts/build-kernels.ts'
import { SOON_MS } from '../../support/assertions/until.ts'
import {
  type TinyAdapter,
  type TinyCheckpoint,
  writeAdapter,
  writeCheckpoint,
} from '../../support/builders/models/checkpoints.ts'
import { writeLargeCheckpoint } from '../../support/builders/models/large-checkpoint.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const QUERY = 'model.layers.0.self_attn.q_proj.weight'

describe('merges', () => {
  let folder: ReturnType<typeof temporaryFolder>

  beforeEach(() => {
    folder = temporaryFolder()
  })
  afterEach(() => folder[Symbol.dispose]())

  const at = (name: string) => join(folder.path, name)
  const use = (name: string, weight = 1) => ({ dir: at(name), label: name, weight })
  const merge = (spec: MergeSpec, options: Partial<MergeOptions> = {}) =>
    mergeModels(spec, { outDir: at('out'), threads: 2, ...options })
  const digest = () =>
    createHash('sha256')
      .update(readFileSync(at('out/model.safetensors')))
      .digest('hex')

  describe('incompatible sources', () => {
    const cases: [string, TinyCheckpoint, RegExp][] = [
      ['architecture', { config: { model_type: 'qwen2' } }, /model_type is "llama" in the first and "qwen2"/],
      ['tied embeddings', { tied: true }, /b uses one tensor for input and output embeddings, a two/],
      ['vocabulary', { tokens: ['t0', 'other'] }, /token 1 is "t1" in the first and "other" in the second/],
      ['shape', { vocab: 50, hidden: 32 }, /model\.embed_tokens\.weight is 50 x 24 in the first and 50 x 32/],
      [
        'missing tensor',
        { change: (tensors) => tensors.delete(QUERY) },
        /model\.layers\.0\.self_attn\.q_proj\.weight is missing in b/,
      ],
      ['extra tensor', { layers: 3 }, /model\.layers\.2\.self_attn\.q_proj\.weight is missing in a/],
    ]
    for (const [what, options, message] of cases) {
      it(`are rejected with the first mismatch: ${what}`, async () => {
        writeCheckpoint(at('a'))
        writeCheckpoint(at('b'), { seed: 1, ...options })

        await assert.rejects(merge({ method: 'slerp', sources: [use('a'), use('b')] }), message)

        assert.ok(!existsSync(at('out')) && !existsSync(at('out.part')))
      })
    }

    it('are rejected when an adapter belongs to another model', async () => {
      writeCheckpoint(at('base'))
      writeAdapter(at('adapter'), { modules: { 'model.layers.0.self_attn.q_proj': [32, 32] } })

      const spec = { method: 'adapter_merge' as const, base: use('base'), sources: [use('adapter')] }

      await assert.rejects(merge(spec), /adapter adds 32 x 32 to .*q_proj\.weight, which is 24 x 24 in base/)
    })

    it('are rejected when an adapter is more than LoRA', async () => {
      writeCheckpoint(at('base'))
      writeAdapter(at('adapter'), { config: { bias: 'all' } })

      const spec = { method: 'adapter_merge' as const, base: use('base'), sources: [use('adapter')] }

      await assert.rejects(merge(spec), /adapter trained biases/)
    })

    const HEAD = { lm_head: [50, 24] as [number, number] }
    const lonely: [string, { adapter: TinyAdapter; other?: TinyAdapter; weight?: number }, RegExp][] = [
      [
        'two adapters that change the same tensor, one of them with DoRA',
        { adapter: { dora: true }, other: { seed: 2 } },
        /adapter trained model.*q_proj\.weight with DoRA, and other changes it too/,
      ],
      [
        'a DoRA adapter with a weight',
        { adapter: { dora: true }, weight: 0.5 },
        /adapter trained model.*q_proj\.weight with DoRA, which cannot be weighted with 0\.5/,
      ],
      [
        'two adapters that saved the same tensor in full',
        { adapter: { saved: HEAD }, other: { saved: HEAD, modules: {} } },
        /adapter trained lm_head\.weight whole, and other changes it too/,
      ],
      [
        'a tensor saved in full with a different shape',
        { adapter: { saved: { lm_head: [51, 24] } } },
        /adapter saved lm_head\.weight as 51 x 24 of F32; it is 50 x 24 in base/,
      ],
      [
        'a tensor saved in full that the adapter does not list',
        { adapter: { saved: HEAD, config: { modules_to_save: null } } },
        /adapter: base_model\.model\.lm_head\.weight is not a LoRA factor/,
      ],
    ]
    for (const [what, { adapter, other, weight = 1 }, message] of lonely) {
      it(`are rejected for ${what}`, async () => {
        writeCheckpoint(at('base'))
        writeAdapter(at('adapter'), adapter)
        if (other) writeAdapter(at('other'), other)
        const sources = [use('adapter', weight), ...(other ? [use('other')] : [])]

        await assert.rejects(merge({ method: 'adapter_merge', base: use('base'), sources }), message)
      })
    }

    it('are rejected when an embedding is saved in full but the base ties its embeddings', async () => {
      writeCheckpoint(at('base'), { tied: true })
      writeAdapter(at('adapter'), { saved: { 'model.embed_tokens': [50, 24] } })

      const spec = { method: 'adapter_merge' as const, base: use('base'), sources: [use('adapter')] }

      await assert.rejects(merge(spec), /saved model\.embed_tokens\.weight whole, but base uses one tensor/)
    })

    it('are rejected when the base is quantized', async () => {
      writeCheckpoint(at('base'), { config: { quantization_config: { load_in_4bit: true } } })
      writeAdapter(at('adapter'))

      const spec = { method: 'adapter_merge' as const, base: use('base'), sources: [use('adapter')] }

      await assert.rejects(merge(spec), /base is quantized/)
    })
  })

  it('name the tensor in which a source has non-finite numbers', async () => {
    writeCheckpoint(at('a'), { seed: 1 })
    for (const bad of [Number.NaN, Infinity]) {
      const change: TinyCheckpoint['change'] = (tensors) => tensors.get(QUERY)?.values.set([bad], 100)
      writeCheckpoint(at('b'), { seed: 2, change })

      await assert.rejects(
        merge({ method: 'ties', base: use('a'), sources: [use('a'), use('b')], density: 0.5 }),
        /q_proj\.weight would have infinite or NaN values/,
      )
      await assert.rejects(merge({ method: 'slerp', sources: [use('a'), use('b')] }), /q_proj\.weight/)
    }
  })

  it('produce the same bytes with any number of threads and any chunk size', async () => {
    for (const seed of [0, 1, 2]) writeCheckpoint(at(`m${seed}`), { seed, hidden: 200, vocab: 333 })
    const [base, sources] = [use('m0'), [use('m1'), use('m2')]]
    const modules: TinyAdapter['modules'] = { 'model.layers.0.self_attn.q_proj': [200, 200] }
    writeAdapter(at('adapter'), { modules })
    writeAdapter(at('dora'), { modules, dora: true })
    const specs: MergeSpec[] = [
      { method: 'slerp', sources },
      { method: 'ties', base, sources, density: 0.4 },
      { method: 'dare', base, sources, density: 0.4, seed: 5 },
      { method: 'adapter_merge', base, sources: [use('adapter')] },
      { method: 'adapter_merge', base, sources: [use('dora')] },
    ]
    for (const spec of specs) {
      const digests = new Set<string>()
      for (const [threads, chunkBytes] of [
        [1, 8_000_000],
        [3, 1],
        [2, 200_000],
      ] as const) {
        await merge(spec, { threads, chunkBytes })
        digests.add(digest())
      }
      assert.equal(digests.size, 1, spec.method)
    }
  })

  it('report progress', async () => {
    for (const seed of [1, 2]) writeCheckpoint(at(`m${seed}`), { seed })
    const progress: number[] = []

    const done = await merge(
      { method: 'slerp', sources: [use('m1'), use('m2')] },
      { onProgress: ({ bytes_done }) => progress.push(bytes_done) },
    )

    assert.equal(progress.at(-1), done.bytes_total)
    assert.equal(done.tensors_done, done.tensors_total)
    assert.equal(done.eta_seconds, 0)
  })

  it('stop promptly when aborted, and leave nothing behind', async () => {
    const size = { hidden: 1_024, inner: 2_048, layers: 8, vocab: 8_000 }
    for (const seed of [0, 1, 2]) writeLargeCheckpoint(at(`m${seed}`), { seed, ...size })
    const controller = new AbortController()
    let abortedAt = 0
    const stop = () => {
      abortedAt = performance.now()
      controller.abort()
    }

    await assert.rejects(
      merge(
        { method: 'ties', base: use('m0'), sources: [use('m1'), use('m2')], density: 0.5 },
        { signal: controller.signal, onProgress: stop },
      ),
    )

    assert.ok(performance.now() - abortedAt < SOON_MS)
    assert.ok(!existsSync(at('out')) && !existsSync(at('out.part')))
  })

  it('use less than 160 MB, however large the models are', () => {
    const size = { hidden: 1_024, inner: 4_096, layers: 8, vocab: 16_000 }
    for (const seed of [0, 1, 2]) writeLargeCheckpoint(at(`m${seed}`), { seed, ...size })
    const script = join(import.meta.dirname, '..', '..', '..', 'bench', 'merge', 'one.ts')
    const peak = () => {
      const { stdout, stderr } = spawnSync(process.execPath, [script, 'ties', folder.path, '2'], {
        encoding: 'utf8',
      })
      assert.ok(stdout, stderr)
      return (JSON.parse(stdout) as { peak_mb: number }).peak_mb
    }
    // The first run fills the cache of compiled code.
    peak()

    const peakMb = peak()
    assert.ok(peakMb > 0 && peakMb < 160, `${peakMb} MB`)
  })

  it('ship kernels built from their sources', async () => {
    await buildKernels(at('kernels.wasm'))

    const shipped = new URL('../../../node-runtime/merge/kernels.wasm', import.meta.url)
    assert.deepEqual(readFileSync(at('kernels.wasm')), readFileSync(shipped))
  })

  it('reject corrupt files', async () => {
    writeCheckpoint(at('a'))
    writeCheckpoint(at('b'), { seed: 1 })
    const path = at('b/model.safetensors')
    writeFileSync(path, readFileSync(path).subarray(0, -100))

    const spec = { method: 'slerp' as const, sources: [use('a'), use('b')] }

    await assert.rejects(merge(spec), /the size of .* does not match its shape/)
  })
})
