import assert from 'node:assert/strict'
import { join } from 'node:path'
import { pythonProcessEnv } from '../../../node-runtime/environments/python-env.ts'
import { mergeModels } from '../../../node-runtime/merge/merge-models.ts'
import { runProgram } from '../../../platform/processes/run-program.ts'
import { llmPython, makeTinyLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const SCRIPT = join(import.meta.dirname, '..', '..', 'support', 'builders', 'models', 'merge_peft.py')
const KINDS = ['lora', 'dora', 'saved'] as const

describe('adapter_merge compared with PEFT', function () {
  this.timeout(300_000)
  before(requireLlm)

  it('yields the same logits as merge_and_unload, from a sharded base, with LoRA, DoRA and a layer saved in full', async () => {
    using folder = temporaryFolder()
    const at = (name: string) => join(folder.path, name)
    const python = await llmPython()
    const options = { env: pythonProcessEnv({ OMP_NUM_THREADS: '1', HF_HUB_OFFLINE: '1' }) }
    await makeTinyLlm(at('base'), { shardSize: '100KB' })
    await runProgram(python, [SCRIPT, 'train', at('base'), at('adapters'), ...KINDS], options)

    for (const kind of KINDS) {
      await mergeModels(
        {
          method: 'adapter_merge',
          base: { dir: at('base'), label: 'base' },
          sources: [{ dir: at(`adapters/${kind}`), label: kind, weight: 1 }],
        },
        { outDir: at(`ours/${kind}`), threads: 2 },
      )
    }

    const compare = [SCRIPT, 'compare', at('base'), at('adapters'), at('ours'), ...KINDS]
    const { stdout } = await runProgram(python, compare, options)
    const found = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Comparison
    assert.deepEqual(Object.keys(found), KINDS)
    for (const [kind, { difference, effect }] of Object.entries(found)) {
      assert.ok(effect > 0.05, `${kind} changes logits by ${effect}`)
      assert.ok(difference < 1e-3, `logits of ${kind} differ by ${difference}`)
    }
  })
})

type Comparison = Record<(typeof KINDS)[number], { difference: number; effect: number }>
