import type { Manifest, ToolManifest } from '../../schemas/tool.ts'
import type { Operations } from '../operations.ts'

/** The tools that the account may call, as agents see them. */
export function manifest(on: Operations) {
  return {
    get: on.call<[], Manifest>({ id: 'getManifest', method: 'GET', path: '/mcp/manifest' }),
    tool: on.call<[slug: string], ToolManifest>({
      id: 'getToolManifest',
      method: 'GET',
      path: '/mcp/manifest/{slug}',
    }),
  }
}
