import type { CatalogTool } from '../../schemas/catalog-tool.ts'

/** The runtime profile of nodes that can sandbox tools. It has no file, because a tool has no model server. */
export const TOOL_PROFILE = 'tool'
export const TOOL_TASK_TYPE = 'tool'

const PREFIX = 'tool:'

/** Returns the model key under which nodes report a tool. */
export const toolKey = (slug: string): string => PREFIX + slug

/** Returns whether a model key belongs to a tool, which nodes start for each request. */
export const isToolKey = (modelKey: string): boolean => modelKey.startsWith(PREFIX)

/** Returns how many seconds a request to a tool may take. */
export function timeLimitOf({ limits, time_field }: CatalogTool, input: Record<string, unknown>): number {
  const wanted = time_field === undefined ? undefined : input[time_field]
  return typeof wanted === 'number' ? wanted : limits.time_s
}
