import assert from 'node:assert/strict'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { mergeModels } from '../../../node-runtime/merge/merge-models.ts'
import { readTensors } from '../../../node-runtime/merge/safetensors.ts'
import { writeAdapter } from '../../support/builders/models/checkpoints.ts'
import { makeTinyLlm, probeLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

interface Verdict {
  prompt: string
  /** Null for a non-finite number. */
  difference: number | null
  limit: number
  effect: number
  passed: boolean
}

describe('comparing the logits of a merge', function () {
  this.timeout(300_000)
  before(requireLlm)

  it('accepts a correct merge, and rejects one with a missing weight or adapter, or a non-finite number', async () => {
    using folder = temporaryFolder()
    const at = (name: string) => join(folder.path, name)
    await makeTinyLlm(at('base'))
    writeAdapter(at('adapter'), {
      modules: { 'model.layers.0.self_attn.q_proj': [64, 64], 'model.layers.1.mlp.up_proj': [128, 64] },
      config: { task_type: 'CAUSAL_LM', target_modules: '.*(0.self_attn.q_proj|1.mlp.up_proj)' },
    })
    const merge = (name: string, weight: number) =>
      mergeModels(
        {
          method: 'adapter_merge',
          base: { dir: at('base'), label: 'base' },
          sources: [{ dir: at('adapter'), label: 'adapter', weight }],
        },
        { outDir: at(name), threads: 1 },
      )
    await merge('good', 4)
    await merge('unweighted', 1)
    cpSync(at('good'), at('spoilt'), { recursive: true })
    await spoil(at('spoilt/model.safetensors'))

    const merged = ['good', 'base', 'unweighted', 'spoilt'].map(at)
    const adapters = [{ dir: at('adapter'), weight: 4 }]
    const [[good, unfolded, unweighted, spoilt]] = await probeLlm<
      [[Verdict[], Verdict[], Verdict[], Verdict[]]]
    >([{ ask: 'compare', base: at('base'), adapters, merged }])

    assert.equal(good.length, 4)
    for (const { passed, difference, limit, effect } of good) {
      assert.ok(passed && difference !== null && difference < limit / 2, `${difference} of ${limit}`)
      assert.ok(limit <= effect / 2 + 1e-6, `the limit is ${limit} of an effect of ${effect}`)
    }
    for (const [what, verdicts] of Object.entries({ unfolded, unweighted, spoilt })) {
      assert.ok(
        verdicts.some(({ passed }) => !passed),
        `${what}: ${JSON.stringify(verdicts)}`,
      )
    }
  })
})

/** Writes one NaN into the weights. */
async function spoil(path: string): Promise<void> {
  const tensor = (await readTensors(path, path)).get('model.norm.weight')
  assert.ok(tensor)
  const bytes = readFileSync(path)
  bytes.writeUInt16LE(0x7fc0, tensor.offset)
  writeFileSync(path, bytes)
}
