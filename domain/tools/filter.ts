import type { ToolKind, ToolStability } from '../../schemas/tool.ts'

/** The properties of a tool that filters check. The MCP server's built-in tools have neither kind nor stability. */
export interface FilteredTool {
  slug: string
  kind?: ToolKind | undefined
  stability?: ToolStability | undefined
}

interface Rules {
  kinds?: readonly string[]
  stabilities?: readonly string[]
  slugs?: readonly string[]
  /** Allows the platform's operations regardless of the other rules. */
  allowsOperations?: boolean
}

/**
 * Limits tools by kind, stability and slug. An empty list imposes no limit; a tool must match each of the other lists.
 */
export class ToolFilter {
  /** Equal filters have equal ids. */
  readonly id: string
  readonly #kinds: readonly string[]
  readonly #stabilities: readonly string[]
  readonly #slugs: readonly string[]
  readonly #allowsOperations: boolean

  constructor({ kinds = [], stabilities = [], slugs = [], allowsOperations = false }: Rules) {
    this.#kinds = kinds
    this.#stabilities = stabilities
    this.#slugs = slugs
    this.#allowsOperations = allowsOperations
    const rules = [kinds, stabilities, slugs].map((list) => [...new Set(list)].toSorted())
    this.id = JSON.stringify([...rules, allowsOperations])
  }

  /**
   * Reads a key's list of tools: `kind:llm`, `stability:stable`; anything else is a slug or a pattern of slugs. An
   * empty list allows nothing.
   */
  static ofKey(entries: readonly string[]): ToolFilter {
    const withPrefix = (prefix: string) =>
      entries.filter((entry) => entry.startsWith(prefix)).map((entry) => entry.slice(prefix.length))
    return new ToolFilter({
      kinds: withPrefix('kind:'),
      stabilities: withPrefix('stability:'),
      slugs: entries.length === 0 ? [NO_SLUG] : entries.filter((entry) => !entry.includes(':')),
    })
  }

  get limits(): boolean {
    return this.#kinds.length + this.#stabilities.length + this.#slugs.length > 0
  }

  allows({ slug, kind, stability }: FilteredTool): boolean {
    if (this.#allowsOperations && kind === 'operation') return true
    return (
      allowsValue(this.#kinds, kind) &&
      allowsValue(this.#stabilities, stability) &&
      (this.#slugs.length === 0 || this.#slugs.some((pattern) => matchesGlob(pattern, slug)))
    )
  }
}

/** No tool has an empty slug. */
const NO_SLUG = ''

const allowsValue = (list: readonly string[], value: string | undefined): boolean =>
  list.length === 0 || (value !== undefined && list.includes(value))

/** Returns whether a string matches a pattern in which `*` matches any characters. Takes linear time per star. */
export function matchesGlob(pattern: string, text: string): boolean {
  const [first = '', ...rest] = pattern.split('*')
  const last = rest.pop()
  if (last === undefined) return pattern === text
  if (!text.startsWith(first) || text.length < first.length + last.length || !text.endsWith(last))
    return false
  const end = text.length - last.length
  let at = first.length
  for (const part of rest) {
    const found = text.indexOf(part, at)
    if (found === -1 || found + part.length > end) return false
    at = found + part.length
  }
  return true
}
