import { createWriteStream } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { request } from 'undici'
import type { PublicConnections } from '../../platform/egress/public-connections.ts'
import { atMost, downloadPublic, FileTooLargeError } from '../../platform/egress/public-download.ts'
import { SendError } from '../../platform/egress/public-sender.ts'
import type { CatalogTool } from '../../schemas/catalog-tool.ts'
import { EgressProxy } from './egress-proxy.ts'
import { ToolError } from './tool-error.ts'

/** A node's access to external systems on behalf of its tools. */
export interface EgressAccess {
  connections: PublicConnections
  /** Returns the URL prefixes of the platform's own storage. */
  storage: () => readonly string[]
  /** For tests: see `STORAGE_IDLE_TIMEOUT_MS`. */
  storageIdleMs?: number
}

const MB = 2 ** 20
/** The maximum time without data from the platform's storage. A whole file may take longer over a slow line. */
const STORAGE_IDLE_TIMEOUT_MS = 120_000

/** Opens a run's egress proxy if its tool may reach public addresses. */
export const openEgress = async (
  { connections }: EgressAccess,
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
 * Fetches the files that the input names, from the platform's own storage or from public addresses. The latter are
 * subject to the same rules as all addresses from callers.
 */
export async function fetchFiles(
  outside: EgressAccess,
  { tool, value, folder, signal }: Fetch,
): Promise<void> {
  for (const [field, { max_mb }] of Object.entries(tool.files ?? {})) {
    const url = value[field]
    if (typeof url !== 'string') continue
    const to = join(folder, field)
    const wanted = { to, maxBytes: max_mb * MB, signal }
    const idleMs = outside.storageIdleMs ?? STORAGE_IDLE_TIMEOUT_MS
    try {
      if (isOwn(url, outside.storage())) await downloadOwn(url, { ...wanted, idleMs })
      else await downloadPublic(outside.connections, url, { ...wanted, owner: `tool:${tool.slug}` })
      // The sandbox's user must be able to read the file, whatever the node's umask.
      await chmod(to, 0o444)
    } catch (err) {
      signal.throwIfAborted()
      if (err instanceof FileTooLargeError || err instanceof SendError)
        throw new ToolError(`${field}: ${err.message}`, { cause: err })
      throw new ToolError(`${field}: the file could not be fetched`, { isOfNode: true, cause: err })
    }
  }
}

/** Returns whether an address belongs to the platform's own storage, however it is spelled. */
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
      statusCode === 403
        ? 'its address has expired or was modified'
        : `the storage responded with ${statusCode}`
    throw new SendError('invalid_answer', why)
  }
  await pipeline(body, atMost(maxBytes), createWriteStream(to), { signal })
}
