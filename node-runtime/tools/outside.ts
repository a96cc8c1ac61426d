import { createWriteStream } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { request } from 'undici'
import type { PublicConnections } from '../../platform/egress/public-connections.ts'
import { atMost, downloadPublic, TooLarge } from '../../platform/egress/public-download.ts'
import { SendError } from '../../platform/egress/public-sender.ts'
import type { CatalogTool } from '../../schemas/catalog-tool.ts'
import { EgressProxy } from './egress-proxy.ts'
import { ToolError } from './tool-error.ts'

/** The outside systems that a node reaches for its tools. */
export interface Outside {
  connections: PublicConnections
  /** Returns the beginnings of the addresses of the platform's own storage. */
  storage: () => readonly string[]
  /** For tests: see `STORAGE_IDLE_TIMEOUT_MS`. */
  storageIdleMs?: number
}

const MB = 2 ** 20
/** The time for which the platform's storage may send nothing. A large file over a slow line takes longer. */
const STORAGE_IDLE_TIMEOUT_MS = 120_000

/** Opens the proxy of a run, if its tool may reach public addresses. */
export const openEgress = async (
  { connections }: Outside,
  { network, slug }: CatalogTool,
  socket: string,
): Promise<EgressProxy | undefined> =>
  network === 'egress' ? EgressProxy.listen(socket, connections, `tool:${slug}`) : undefined

interface Fetch {
  tool: CatalogTool
  value: Record<string, unknown>
  folder: string
  signal: AbortSignal
}

/**
 * Fetches the files that the input names. They come from the platform's own storage, or from public
 * addresses under the same rules as everything that callers name.
 */
export async function fetchFiles(outside: Outside, { tool, value, folder, signal }: Fetch): Promise<void> {
  for (const [field, { max_mb }] of Object.entries(tool.files ?? {})) {
    const url = value[field]
    if (typeof url !== 'string') continue
    const to = join(folder, field)
    const wanted = { to, maxBytes: max_mb * MB, signal }
    const idleMs = outside.storageIdleMs ?? STORAGE_IDLE_TIMEOUT_MS
    try {
      if (isOwn(url, outside.storage())) await downloadOwn(url, { ...wanted, idleMs })
      else await downloadPublic(outside.connections, url, { ...wanted, owner: `tool:${tool.slug}` })
      // Whatever the node's own files are, the user of the sandbox reads these.
      await chmod(to, 0o444)
    } catch (err) {
      signal.throwIfAborted()
      if (err instanceof TooLarge || err instanceof SendError)
        throw new ToolError(`${field}: ${err.message}`, { cause: err })
      throw new ToolError(`${field}: the file could not be fetched`, { isOfNode: true, cause: err })
    }
  }
}

/** Returns whether an address is one of the platform's own storage, however it is written. */
function isOwn(url: string, prefixes: readonly string[]): boolean {
  const { href } = URL.canParse(url) ? new URL(url) : { href: '' }
  return prefixes.some((prefix) => href.startsWith(prefix))
}

async function downloadOwn(
  url: string,
  { to, maxBytes, signal, idleMs }: { to: string; maxBytes: number; signal: AbortSignal; idleMs: number },
): Promise<void> {
  const { statusCode, body } = await request(url, { signal, headersTimeout: idleMs, bodyTimeout: idleMs })
  if (statusCode !== 200) {
    await body.dump()
    const why =
      statusCode === 403 ? 'its address has expired or was changed' : `the storage answered ${statusCode}`
    throw new SendError('invalid_answer', why)
  }
  await pipeline(body, atMost(maxBytes), createWriteStream(to), { signal })
}
