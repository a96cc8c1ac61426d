import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { CAUSAL_MODEL_TYPES } from '../../../../domain/models/readable.ts'
import { llmPython, requireLlm } from '../../../support/builders/tiny-llm.ts'

const PROGRAM =
  'from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as names; print(*sorted(names))'

describe('the model types that imports accept', function () {
  this.timeout(120_000)
  before(requireLlm)

  it('are those of the locked version of transformers', async () => {
    const { stdout } = await promisify(execFile)(await llmPython(), ['-c', PROGRAM])

    assert.deepEqual([...CAUSAL_MODEL_TYPES], stdout.trim().split(' '))
  })
})
