import { type FilteredTool, ToolFilter } from '../../domain/tools/filter.ts'
import type { Config } from '../../platform/config.ts'
import type { AccountCaller } from '../http/caller.ts'
import type { Services } from '../services.ts'
import type { ToolList } from './tool-list.ts'
import type { Tool } from './tool.ts'

const configured = new WeakMap<Config, ToolFilter>()

/** Returns the configured filter, built once. It always allows the operations, which are in every manifest. */
function configuredFilter(config: Config): ToolFilter {
  let filter = configured.get(config)
  if (!filter) {
    filter = new ToolFilter({
      kinds: config.HEARTH_TOOL_KINDS,
      stabilities: config.HEARTH_TOOL_STABILITY,
      slugs: config.HEARTH_TOOL_SLUGS,
      allowsOperations: true,
    })
    configured.set(config, filter)
  }
  return filter
}

type Caller = Pick<AccountCaller, 'accountId' | 'tools'>

/**
 * Returns the tools of a caller's manifest: those that the account may call, filtered by the configuration and the key.
 * Synchronous if they are in memory.
 */
export function toolsOf(
  { tools, config }: Pick<Services, 'tools' | 'config'>,
  { accountId, tools: limit }: Caller,
): ToolList | Promise<ToolList> {
  const filter = configuredFilter(config)
  return tools.list(
    accountId,
    [filter.limits && filter, limit].filter((one) => one instanceof ToolFilter),
  )
}

/** Returns a tool that the account may call and the key allows, whether or not the configuration shows it. */
export async function findTool(
  { tools }: Pick<Services, 'tools'>,
  { accountId, tools: limit }: Caller,
  slug: string,
): Promise<Tool | undefined> {
  const list = await tools.list(accountId, limit ? [limit] : [])
  return list.find(slug)
}

/** Returns whether a caller's key allows a tool; a key without a limit allows all of them. */
export const mayUse = ({ tools }: Pick<AccountCaller, 'tools'>, tool: FilteredTool): boolean =>
  !tools || tools.allows(tool)
