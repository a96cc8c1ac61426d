import { hearth, HearthError } from '../client/index.ts'
import { BUILT_IN_TOOLS } from '../domain/actions/reserved.ts'
import { matchesGlob, ToolFilter } from '../domain/tools/filter.ts'

/** A key that is limited to certain tools. */
interface LimitedKey {
  api_key: string
  tools: readonly string[]
}

/** Returns a warning about tool entries that currently match no tool; undefined if all of them match. */
export async function warningOfUnmatched(
  baseUrl: string,
  { api_key, tools }: LimitedKey,
): Promise<string | undefined> {
  const names = await namesOfManifest(baseUrl, api_key)
  if (!names) return undefined
  const filter = ToolFilter.ofKey(tools)
  const usable = [...names, ...BUILT_IN_TOOLS.filter((slug) => filter.allows({ slug }))]
  const unmatched = tools.filter(
    (entry) => !entry.includes(':') && !usable.some((name) => matchesGlob(entry, name)),
  )
  if (unmatched.length > 0)
    return `this key currently can't call any tool named ${unmatched.join(' or ')}; check the spelling, or create the tool.`
  return usable.length === 0 ? "this key currently can't call any tool." : undefined
}

/** Returns the tool names in the key's manifest; undefined if it can't be read. */
async function namesOfManifest(baseUrl: string, apiKey: string): Promise<string[] | undefined> {
  try {
    const { tools } = await hearth({ baseUrl, apiKey }).manifest.get()
    return tools.map(({ name }) => name)
  } catch (err) {
    if (err instanceof HearthError) return undefined
    throw err
  }
}
