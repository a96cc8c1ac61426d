import assert from 'node:assert/strict'
import { servedProfiles } from '../../../domain/placement/served-profiles.ts'
import { loadCatalog } from '../../../platform/catalog.ts'

describe('the profiles that a node serves', () => {
  const { profiles } = loadCatalog()
  const servedBy = (isRunnable: (profile: (typeof profiles)[number]) => boolean) =>
    servedProfiles(
      profiles.filter(isRunnable).map(({ profile_id }) => profile_id),
      profiles,
    )
  const onCpu = servedBy((profile) => !profile.requires_gpu && profile.requires_program === undefined)

  it('include variants of a profile for other hardware, but not another framework', () => {
    assert.ok(onCpu.includes('llm-llamacpp-cuda'))
    assert.ok(!onCpu.includes('llm-vllm'))
    assert.ok(servedBy(({ profile_id }) => profile_id === 'llm-vllm-process').includes('llm-vllm'))
    assert.ok(servedBy(({ profile_id }) => profile_id === 'llm-vllm').includes('llm-vllm-process'))
  })

  it('include versions of vLLM on a CPU node if their settings name its engine', () => {
    assert.ok(onCpu.includes('llm-vllm transformers'))
    assert.ok(onCpu.includes('llm-vllm-process transformers'))
    assert.ok(!onCpu.includes('llm-vllm vllm'))
    // A node without the upstream server uses its own one.
    assert.ok(onCpu.includes('llm-llamacpp llama-server'))
  })

  it('are the runnable ones alone for profiles without a kind', () => {
    assert.deepEqual(
      servedBy(({ profile_id }) => profile_id === 'specialist-onnx'),
      ['specialist-onnx'],
    )
  })
})
