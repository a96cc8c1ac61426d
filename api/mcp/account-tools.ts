import { createHash } from 'node:crypto'
import { isReserved } from '../../domain/actions/reserved.ts'
import type { ToolList as ManifestList } from '../manifest/tool-list.ts'
import { mayUse, toolsOf } from '../manifest/tools-of.ts'
import { ManifestTool } from './manifest-tool.ts'
import { ToolList } from './tool-list.ts'
import type { AccountRequestContext, Tool } from './tool.ts'
import { BUILT_IN_TOOLS } from './tools/index.ts'
import { recallTool } from './tools/recall.ts'
import { rememberTool } from './tools/remember.ts'

/**
 * Tool lists per manifest list, keyed by the memory tools that the key may use. A manifest list belongs to one account
 * and one set of filters, and is replaced when any of its tools changes.
 */
const known = new WeakMap<ManifestList, Map<string, ToolList>>()

/**
 * Returns a caller's tools: the built-in tools, the memory tools that its key has a grant for, then the tools of its
 * manifest. The configuration and the key filter the manifest; only the key filters the others. Endpoints with a name
 * that has become reserved are left out, because agents would mistake them for something else.
 */
export function accountTools({
  caller,
  services,
}: Pick<AccountRequestContext, 'caller' | 'services'>): ToolList | Promise<ToolList> {
  const manifest = toolsOf(services, caller)
  return manifest instanceof Promise ? manifest.then(listOf) : listOf(manifest)

  function listOf(list: ManifestList): ToolList {
    const ofMemory = memoryTools({ caller, services })
    const variant = ofMemory.map(({ name }) => name).join()
    const variants = known.get(list) ?? new Map<string, ToolList>()
    known.set(list, variants)
    let tools = variants.get(variant)
    if (!tools) {
      const builtIn = [...BUILT_IN_TOOLS, ...ofMemory]
      const usable = builtIn.filter(({ name }) => mayUse(caller, { slug: name }))
      const taken = new Set(builtIn.map(({ name }) => name))
      const others = list.tools
        .filter(({ slug, kind }) => !taken.has(slug) && (kind === 'operation' || !isReserved(slug)))
        .map((tool) => ManifestTool.of(tool, services.tools.texts))
      tools = new ToolList([...usable, ...others], digestOf(list, usable))
      variants.set(variant, tools)
    }
    return tools
  }
}

function memoryTools({ caller, services }: Pick<AccountRequestContext, 'caller' | 'services'>): Tool[] {
  const { mayRead, mayWrite } = services.memory.accessOf(caller)
  return [...(mayWrite ? [rememberTool] : []), ...(mayRead ? [recallTool] : [])]
}

/** Different keys may have equal manifests but different built-in tools. */
const digestOf = ({ digest }: ManifestList, builtIn: readonly Tool[]): string =>
  createHash('sha256')
    .update(digest)
    .update(builtIn.map(({ name }) => name).join())
    .digest('base64url')
