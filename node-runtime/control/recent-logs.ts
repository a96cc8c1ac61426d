import { TOKEN_PREFIX } from '../../domain/token-prefixes.ts'
import type { NodeLogEntry, NodeLogSource } from '../../schemas/nodes/node-logs.ts'

const MAX_LINES = 1_000
const MAX_LINE = 2_000
const CUT = '…'
const MAX_SECRET = 500
/** Tokens that the platform issues, and query strings of URLs, which may contain signatures. */
const SECRETS = [
  [new RegExp(`(?:${Object.values(TOKEN_PREFIX).join('|')})[\\w-]{20,}`, 'g'), '***'],
  [/(\b(?:http|ws)s?:\/\/[^\s"'<>?]+)\?[^\s"'<>]*/g, '$1?***'],
] as const

/** The newest log lines of a node process and its model servers, in memory only. */
export class RecentLogs {
  readonly #kept: Record<NodeLogSource, NodeLogEntry[]> = { node: [], models: [] }

  keep(source: NodeLogSource, message: string, modelKey?: string): void {
    const lines = this.#kept[source]
    const line = { at: new Date().toISOString(), message: redactLine(message) }
    lines.push(modelKey === undefined ? line : { ...line, model_key: modelKey })
    // Dropping many lines at once is cheaper than dropping them one by one.
    if (lines.length >= 2 * MAX_LINES) lines.splice(0, lines.length - MAX_LINES)
  }

  /** Returns up to `limit` of the newest lines that fit into `mostBytes` of JSON, oldest first. */
  newest(source: NodeLogSource, limit: number, mostBytes: number): NodeLogEntry[] {
    const lines = this.#kept[source].slice(-Math.min(limit, MAX_LINES))
    let bytes = 0
    const first = lines.findLastIndex(
      (line) => (bytes += Buffer.byteLength(JSON.stringify(line)) + 1) > mostBytes,
    )
    return lines.slice(first + 1)
  }
}

function redactLine(message: string): string {
  // Redact before truncating, so no part of a secret survives at the cut. Long lines aren't searched to their end.
  const text = SECRETS.reduce(
    (line, [secret, instead]) => line.replaceAll(secret, instead),
    message.slice(0, MAX_LINE + MAX_SECRET),
  )
  return text.length > MAX_LINE ? text.slice(0, MAX_LINE) + CUT : text
}
