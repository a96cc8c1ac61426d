import type { ToolList as ManifestList } from '../manifest/tool-list.ts'
import { mayUse, toolsOf } from '../manifest/tools-of.ts'
import { ManifestTool } from './manifest-tool.ts'
import { ToolList } from './tool-list.ts'
import type { RequestOfAccount } from './tool.ts'
import { BUILT_IN_TOOLS } from './tools/index.ts'

/** A list of a manifest belongs to one account and one set of filters, and is replaced when any of its tools changes. */
const known = new WeakMap<ManifestList, ToolList>()

/**
 * Returns the tools of a caller: the built-in ones, then those of its manifest. The manifest is filtered by the
 * configuration and by the key; built-in tools only by the key. A built-in tool hides one of the same name.
 */
export function accountTools({
  caller,
  services,
}: Pick<RequestOfAccount, 'caller' | 'services'>): ToolList | Promise<ToolList> {
  const manifest = toolsOf(services, caller)
  return manifest instanceof Promise ? manifest.then(listOf) : listOf(manifest)

  function listOf(list: ManifestList): ToolList {
    let tools = known.get(list)
    if (!tools) {
      const builtIn = BUILT_IN_TOOLS.filter(({ name }) => mayUse(caller, { slug: name }))
      const taken = new Set(BUILT_IN_TOOLS.map(({ name }) => name))
      const others = list.tools.filter(({ slug }) => !taken.has(slug)).map((tool) => ManifestTool.of(tool))
      tools = new ToolList([...builtIn, ...others], list.digest.toString('base64url'))
      known.set(list, tools)
    }
    return tools
  }
}
