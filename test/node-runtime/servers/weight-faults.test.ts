import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { pythonOf } from '../../support/servers/nodes/trainer.ts'

const SERVERS = join(import.meta.dirname, '..', '..', '..', 'node-runtime', 'servers')

/** Prints for each expression whether the error that it raises counts as a fault of the weights. */
const JUDGE = `
import json, sys
sys.path[:0] = sys.argv[1:3]
from weight_faults import is_fault_of_weights
def judged(expression):
    try:
        exec(expression, {})
    except Exception as error:
        return is_fault_of_weights(error)
print(json.dumps([judged(expression) for expression in sys.argv[3:]]))`

describe('weight fault checks', function () {
  this.timeout(120_000)
  let python: string
  before(async function () {
    this.timeout(1_800_000)
    python = await pythonOf('llm')
  })

  function judge(expressions: readonly string[]): boolean[] {
    using folder = temporaryFolder()
    for (const [name, code] of Object.entries({
      broken_key: "{}['torch._dynamo']",
      broken_value: "raise ValueError('operator torchvision::nms does not exist')",
      broken_tensor: "{}['model.embed_tokens.weight']",
    }))
      writeFileSync(join(folder.path, `${name}.py`), code)
    writeFileSync(join(folder.path, 'cut.safetensors'), 'cut')
    const args = ['-c', JUDGE, SERVERS, folder.path, ...expressions]
    return JSON.parse(execFileSync(python, args, { encoding: 'utf8' })) as boolean[]
  }

  it('never blame the weights for an environment fault', () => {
    const faults = [
      "{}['torch._dynamo']",
      "{}['torchvision.ops.nms']",
      "{}['scale']",
      'raise KeyError',
      'raise KeyError(3)',
      'import no_such_module',
      'from os import no_such_name',
      "raise AttributeError('partially initialized module')",
      "raise RuntimeError('Failed to import transformers.models.llama.modeling_llama because of the following error')",
      'import broken_key',
      'import broken_value',
      'import broken_tensor',
      "__import__('importlib').import_module('broken_value')",
    ]

    assert.deepEqual(
      judge(faults),
      faults.map(() => false),
    )
  })

  it('blame the weights for missing or wrong tensors and values', () => {
    const faults = [
      "{}['model.layers.0.self_attn.q_proj.weight']",
      "{}['lm_head.bias']",
      "{}['model.layers.3.mlp.down_proj.weight_scale']",
      "raise ValueError('Unrecognized model')",
      "raise RuntimeError('size mismatch for lm_head.weight')",
      "__import__('safetensors').safe_open(__import__('sys').argv[2] + '/cut.safetensors', framework='pt')",
    ]

    assert.deepEqual(
      judge(faults),
      faults.map(() => true),
    )
  })
})
