import assert from 'node:assert/strict'
import { probeLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'

interface LossComparison {
  chunked: boolean
  loss: number
  evaluated: number
  gradients: number
  size: number
}

/** Granite scales its logits, and Gemma 2 caps them; the Llama has tied embeddings. */
const FAMILIES = 'bloom codegen falcon gemma2 gpt2 gpt_neo gpt_oss gptj granite llama mamba mpt'.split(' ')
const ADAPTERS = ['lora', 'none']
/** Float32 has about seven digits. */
const ROUNDING = 1e-5

describe('the loss in chunks of tokens', function () {
  this.timeout(600_000)
  const requests = FAMILIES.flatMap((family) =>
    ADAPTERS.map((adapter) => ({ family, adapter, muted: false })),
  )
  const muted = ADAPTERS.map((adapter) => ({ family: 'llama', adapter, muted: true }))
  let seen: LossComparison[]

  before(requireLlm)
  before(async () => {
    seen = await probeLlm<LossComparison[]>([...requests, ...muted].map((one) => ({ ask: 'losses', ...one })))
  })

  for (const [index, { family, adapter }] of requests.entries()) {
    it(`equals the loss over all logits, and has its gradients, for ${family} with adapter ${adapter}`, () => {
      const { chunked, loss, evaluated, gradients, size } = seen[index]!

      assert.ok(chunked)
      assert.ok(size > 1, `${size}`)
      for (const difference of [loss, evaluated, gradients]) assert.ok(difference < ROUNDING, `${difference}`)
    })
  }

  it('is zero without gradients if no token is trained on', () => {
    for (const { loss, gradients } of seen.slice(requests.length)) assert.deepEqual([loss, gradients], [0, 0])
  })
})
