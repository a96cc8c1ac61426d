import { registerTools } from '../../../../api/tools/register.ts'
import type { Answer, AnyBody } from '../api.ts'
import { type TestNodeOptions, until } from '../nodes/node.ts'
import { type InferenceWorld, startInferenceWorld, type WorldNode } from './inference-world.ts'

/** A gateway with the catalog tools. */
export interface ToolWorld extends InferenceWorld {
  /** Starts a node and waits until it has reported its tools, if it can run any. */
  toolNode(options?: TestNodeOptions): Promise<WorldNode>
  /** Calls a tool through `infer`. */
  call(slug: string, input: object, body?: object): Promise<Answer<AnyBody>>
}

export async function startToolWorld(env?: NodeJS.ProcessEnv): Promise<ToolWorld> {
  const world = await startInferenceWorld(env)
  await registerTools(world.api.services)
  const { api, key } = world
  return {
    ...world,
    async toolNode(options = {}) {
      const node = await world.node({ tools: true, ...options })
      if (node.parts.tools.report().length > 0) {
        await until(() => api.services.links.placement.count('tool:calculator').warm > 0)
      }
      return node
    },
    call: (slug, input, body) =>
      api.call('POST', `/api/builder/v1/endpoints/${slug}/infer`, { key, body: { input, ...body } }),
  }
}
