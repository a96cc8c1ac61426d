import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { mergeModels } from '../../node-runtime/merge/merge-models.ts'
import { pythonProcessEnv } from '../../node-runtime/python-env.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { llmPython, makeTinyLlm, requireLlm } from '../support/tiny-llm.ts'

const run = promisify(execFile)
const SCRIPT = join(import.meta.dirname, '..', 'support', 'merge_peft.py')

describe('adapter_merge beside PEFT', function () {
  this.timeout(300_000)
  before(requireLlm)

  it('gives the logits of merge_and_unload, from a sharded base and a trained adapter', async () => {
    using folder = temporaryFolder()
    const at = (name: string) => join(folder.path, name)
    const python = await llmPython()
    const options = { env: pythonProcessEnv({ OMP_NUM_THREADS: '1', HF_HUB_OFFLINE: '1' }) }
    await makeTinyLlm(at('base'), { shardSize: '100KB' })
    await run(python, [SCRIPT, 'train', at('base'), at('adapter')], options)

    await mergeModels(
      {
        method: 'adapter_merge',
        base: { dir: at('base'), label: 'base' },
        sources: [{ dir: at('adapter'), label: 'adapter', weight: 1 }],
      },
      { outDir: at('ours'), threads: 2 },
    )

    const { stdout } = await run(python, [SCRIPT, 'compare', at('base'), at('adapter'), at('ours')], options)
    const { difference, effect } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Record<
      string,
      number
    >
    assert.ok(effect !== undefined && effect > 0.05, `the adapter changes logits by ${effect}`)
    assert.ok(difference !== undefined && difference < 1e-3, `logits differ by ${difference}`)
  })
})
