import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { CAUSAL_MODEL_TYPES, READABLE_QUANTIZATIONS } from '../../../../domain/models/readable.ts'
import { llmPython, requireLlm } from '../../../support/builders/models/tiny-llm.ts'

const PROGRAM =
  'from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as names; print(*sorted(names))'

describe('quantizations that imports accept', () => {
  it('match the ones that the language model server reads', () => {
    const server = new URL('../../../../node-runtime/servers/llm/model.py', import.meta.url)
    const [, list = ''] = /^READABLE_QUANTIZATIONS = \((.*)\)$/m.exec(readFileSync(server, 'utf8')) ?? []

    const names = [...list.matchAll(/"(\w+)"/g)].map(([, name]) => name)

    assert.deepEqual(new Set(names), READABLE_QUANTIZATIONS)
  })
})

describe('model types that imports accept', function () {
  this.timeout(120_000)
  before(requireLlm)

  it('match the locked version of transformers', async () => {
    const { stdout } = await promisify(execFile)(await llmPython(), ['-c', PROGRAM])

    assert.deepEqual([...CAUSAL_MODEL_TYPES], stdout.trim().split(' '))
  })
})
