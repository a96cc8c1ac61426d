import assert from 'node:assert/strict'
import { probeLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'

interface TrainingResult {
  learns: boolean
  parameters: number
  difference: number
}

/** Some of these compute attention only in plain PyTorch, and Mamba has no attention layers. */
const FAMILIES = 'bloom codegen falcon gemma2 gpt2 gpt_neo gpt_oss gptj mamba mpt'.split(' ')
/** Settings other than LoRA with automatic flash attention. */
const OTHERWISE = [
  { family: 'gemma2', flash_attention: 'on' },
  { family: 'bloom', flash_attention: 'off' },
  { family: 'gptj', adapter: 'none' },
]

describe('families of language models', function () {
  this.timeout(600_000)
  const probeRequests = [...FAMILIES.map((family) => ({ family })), ...OTHERWISE].map((one) => ({
    ask: 'family',
    adapter: 'lora',
    flash_attention: 'auto',
    ...one,
  }))
  let seen: TrainingResult[]

  before(requireLlm)
  before(async () => {
    seen = await probeLlm<TrainingResult[]>(probeRequests)
  })

  for (const [index, { family, adapter, flash_attention }] of probeRequests.entries()) {
    it(`${family} learns with adapter ${adapter} and flash attention ${flash_attention}, and is served as it was trained`, () => {
      const { learns, parameters, difference } = seen[index]!

      assert.ok(learns)
      assert.ok(parameters > 0)
      // The trained weights are rounded to bf16.
      assert.ok(difference < 0.05, `${difference}`)
    })
  }
})
