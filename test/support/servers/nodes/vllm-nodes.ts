import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadCatalog } from '../../../../platform/catalog.ts'
import type { RuntimeProfile } from '../../../../schemas/nodes/runtime-profile.ts'
import { temporaryFolder } from '../../builders/temporary-folder.ts'
import type { TestApi } from '../api.ts'
import { FAKE_LLM_SERVER, startChatNode } from '../chat-api.ts'
import type { TestNode, TestNodeOptions } from './node.ts'
import { realPython } from './python.ts'

/** It accepts the arguments of the pinned version only. */
const FAKE_VLLM = [
  realPython(),
  join(import.meta.dirname, 'fake_vllm.py'),
  join(import.meta.dirname, 'vllm-cli.json'),
]
export const LLAMA = { model_type: 'llama', architectures: ['LlamaForCausalLM'] }
/** The profile of Hearth's own server, which every version names. */
export const OWN = 'tiny'
export const VLLM = 'llm-vllm-process'

export interface VllmFacts {
  argv: string[]
  /** How often a server has started with the same cache. */
  starts: number
  env: Record<string, string>
}

/** Returns the real profile of vLLM, with a fake engine that accepts the same arguments. */
export function vllmProfile(): RuntimeProfile {
  const profile = loadCatalog().profile(VLLM)
  assert.ok(profile)
  const { engine_counts: _, ...rest } = profile
  const serve = profile.command.indexOf('serve')
  return { ...rest, python_env: null, command: [...FAKE_VLLM, ...profile.command.slice(serve)] }
}

/** Starts nodes whose catalog has vLLM and Hearth's own server, with GPUs of any sizes. */
export class VllmNodes implements Disposable {
  readonly #folder = temporaryFolder()
  readonly #env = process.env

  /** Starts a node with GPUs of these sizes in MB. */
  async start(api: TestApi, gpus: number[], options: TestNodeOptions = {}): Promise<TestNode> {
    const rows = gpus.map((mb, at) => `NVIDIA H${at}, ${mb}, GPU-${at}, Disabled`)
    const script = `#!/bin/sh\ncase "$1" in --query-gpu*) printf '${rows.map((row) => `${row}\\n`).join('')}' ;; esac`
    writeFileSync(join(this.#folder.path, 'nvidia-smi'), script, { mode: 0o755 })
    process.env = { ...this.#env, PATH: `${this.#folder.path}:${this.#env['PATH']}` }
    delete process.env['CUDA_VISIBLE_DEVICES']
    return startChatNode(api, {
      modelKind: 'llm/safetensors',
      vramMb: gpus.length > 0 ? 600 : 0,
      memoryMb: gpus.length > 0 ? gpus.reduce((sum, mb) => sum + mb, 0) : 1_000,
      server: FAKE_LLM_SERVER,
      otherProfiles: [vllmProfile()],
      ...options,
    })
  }

  /** Restores the environment; call it after each test. */
  reset(): void {
    process.env = this.#env
  }

  [Symbol.dispose](): void {
    this.reset()
    this.#folder[Symbol.dispose]()
  }
}

/** Returns the profile of a model's server on a node. */
export const engineOf = ({ parts }: TestNode, key: string): string | undefined =>
  parts.models.report().find(({ model_key }) => model_key === key)?.runtime_profile

/** Returns what the fake vLLM of a model received. */
export async function vllmFacts({ parts }: TestNode, key: string): Promise<VllmFacts> {
  using use = parts.models.use(key)
  assert.ok(use)
  const { body } = await use.server.pool.request({ method: 'POST', path: '/x', body: '{}' })
  return (await body.json()) as VllmFacts
}
