import type { IncomingMessage } from 'node:http'
import { ApiError } from '../../domain/errors.ts'

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])
const ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/i

/**
 * Rejects requests from web pages, except this gateway's own pages; programs send no Origin. Also guards against DNS
 * rebinding, which shows in the `Host` header: a gateway with a local address accepts only local names.
 */
export function checkOrigin({ headers }: IncomingMessage, publicUrl: string): void {
  const publicAddress = new URL(publicUrl)
  const host = parse(`http://${headers.host ?? ''}`)
  if (!host || (LOOPBACK.has(publicAddress.hostname) && !isLocal(host.hostname))) {
    throw refused(
      `the Host ${headers.host ?? ''} is not an address of this gateway, whose address is ${publicUrl}`,
    )
  }
  if (headers.origin === undefined) return
  const origin = parse(headers.origin)
  const isOwn = origin !== undefined && (origin.host === publicAddress.host || isSamePage(origin, host))
  if (!isOwn) throw refused(`pages from ${headers.origin} may not call this gateway`)
}

/** Returns whether a page was loaded from this gateway under one of its local names. */
const isSamePage = (origin: URL, host: URL): boolean => origin.host === host.host && isLocal(host.hostname)

const isLocal = (hostname: string): boolean => LOOPBACK.has(hostname) || ADDRESS.test(hostname)

function parse(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined
}

const refused = (why: string): ApiError =>
  new ApiError('forbidden', `${why}; an operator sets that address with HEARTH_BASE_URL or HEARTH_PUBLIC_URL`)
