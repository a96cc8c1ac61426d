import assert from 'node:assert/strict'
import type { ChatWrapper } from '../../../../node-runtime/servers/llama/binding.ts'
import { resolveInTime } from '../../../../node-runtime/servers/llama/template-time.ts'
import { UnusableError } from '../../../../node-runtime/servers/llama/unusable-error.ts'
import { UnusableWeightsError } from '../../../../node-runtime/servers/llama/unusable-weights.ts'

const STATE = { contextText: { values: ['hi'], tokenize: () => [] }, stopGenerationTriggers: [] }

/** Imitates an endless template in a library that catches the template's errors. */
function spin(): never {
  for (;;) {
    try {
      for (let i = 0; i < 1_000_000; i++);
    } catch {
      // The timeout can't be caught.
    }
  }
}
const wrapperOf = (generateContextState: () => typeof STATE): ChatWrapper => ({ generateContextState })

describe('the chat template of a GGUF', function () {
  this.timeout(60_000)

  it('makes the weights unusable if it loops forever while the model loads', () => {
    assert.throws(
      () => resolveInTime(() => spin(), { timeoutMs: 300 }),
      (err) => err instanceof UnusableWeightsError && /chat template takes more than 0.3 s/.test(err.message),
    )
  })

  it('rejects a conversation that makes it loop forever, and serves the next one', () => {
    let isEndless = true
    const wrapper = resolveInTime(() => wrapperOf(() => (isEndless ? spin() : STATE)), { timeoutMs: 300 })
    const generate = () => wrapper.generateContextState({ chatHistory: [] })

    assert.throws(generate, (err) => err instanceof UnusableError && err.field === 'messages')
    isEndless = false
    assert.equal(generate(), STATE)
  })

  it('passes on its own errors and results', () => {
    const wrapper = resolveInTime(() => wrapperOf(() => STATE))

    assert.equal(wrapper.generateContextState({ chatHistory: [] }), STATE)
    assert.throws(
      () =>
        resolveInTime(() => {
          throw new TypeError('its own')
        }),
      { name: 'TypeError', message: 'its own' },
    )
  })
})
