import type { IncomingMessage } from 'node:http'
import { ApiError } from '../../domain/errors.ts'

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])
const ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/i

/**
 * Refuses requests that a web page makes, unless it is a page of this gateway; programs send no Origin. A page whose
 * name has been pointed at this machine shows itself by the Host as well: a gateway that is reached on its own machine
 * only takes no other names.
 */
export function checkOrigin({ headers }: IncomingMessage, baseUrl: string): void {
  const own = new URL(baseUrl)
  const host = parse(`http://${headers.host ?? ''}`)
  if (!host || (LOOPBACK.has(own.hostname) && !isLocal(host.hostname))) {
    throw refused(`the Host ${headers.host ?? ''} is not an address of this gateway, which is ${baseUrl}`)
  }
  if (headers.origin === undefined) return
  const origin = parse(headers.origin)
  const isOwn = origin !== undefined && (origin.host === own.host || isSamePage(origin, host))
  if (!isOwn) throw refused(`pages of ${headers.origin} may not call this gateway`)
}

/** A page that came from this gateway under a local name of it. */
const isSamePage = (origin: URL, host: URL): boolean => origin.host === host.host && isLocal(host.hostname)

const isLocal = (hostname: string): boolean => LOOPBACK.has(hostname) || ADDRESS.test(hostname)

function parse(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined
}

const refused = (why: string): ApiError =>
  new ApiError('forbidden', `${why}; an operator sets that address with HEARTH_BASE_URL`)
