import { TOKEN_PREFIX } from '../../domain/token-prefixes.ts'
import type { NodeLine, NodeLineSource } from '../../schemas/node.ts'

const MAX_LINES = 1_000
const MAX_LINE = 2_000
const CUT = '…'
const MAX_SECRET = 500
/** Whatever the platform issues, and queries of URLs, which sign what they address. */
const SECRETS = [
  [new RegExp(`(?:${Object.values(TOKEN_PREFIX).join('|')})[\\w-]{20,}`, 'g'), '***'],
  [/(\b(?:http|ws)s?:\/\/[^\s"'<>?]+)\?[^\s"'<>]*/g, '$1?***'],
] as const

/** The newest lines that a node process has logged, and its model servers have written; they end with the process. */
export class RecentLines {
  readonly #kept: Record<NodeLineSource, NodeLine[]> = { node: [], models: [] }

  keep(source: NodeLineSource, message: string, modelKey?: string): void {
    const lines = this.#kept[source]
    const line = { at: new Date().toISOString(), message: told(message) }
    lines.push(modelKey === undefined ? line : { ...line, model_key: modelKey })
    // Dropping many at once costs less than one with each line.
    if (lines.length >= 2 * MAX_LINES) lines.splice(0, lines.length - MAX_LINES)
  }

  /** Returns as many of the newest lines as are wanted, kept and fit into so many bytes of JSON, oldest first. */
  newest(source: NodeLineSource, limit: number, mostBytes: number): NodeLine[] {
    const lines = this.#kept[source].slice(-Math.min(limit, MAX_LINES))
    let bytes = 0
    const first = lines.findLastIndex(
      (line) => (bytes += Buffer.byteLength(JSON.stringify(line)) + 1) > mostBytes,
    )
    return lines.slice(first + 1)
  }
}

function told(message: string): string {
  // Cut after that, so that no part of a secret at the cut is left; a long line is not searched whole.
  const text = SECRETS.reduce(
    (line, [secret, instead]) => line.replaceAll(secret, instead),
    message.slice(0, MAX_LINE + MAX_SECRET),
  )
  return text.length > MAX_LINE ? text.slice(0, MAX_LINE) + CUT : text
}
