import Router, { type RouterMiddleware } from '@koa/router'
import type { RequestContext } from './request-context.ts'

/** A route to register with the router. */
export interface RouterEntry {
  name: string
  method: string
  /** The full path, in OpenAPI syntax. */
  path: string
  middlewares: readonly RouterMiddleware<RequestContext>[]
}

export type ApiRouter = Router<RequestContext>

/**
 * Creates an @koa/router with these routes. It uses the first match, so we sort routes by path: at each segment,
 * literals precede parameters with a suffix (`{slug}:invoke`), which precede bare parameters. Paths are case-sensitive,
 * and a trailing slash makes a different path.
 */
export function createRouter(entries: readonly RouterEntry[]): ApiRouter {
  refuseAmbiguous(entries)
  const router: ApiRouter = new Router({ sensitive: true, strict: true })
  const inOrder = entries.map((entry) => ({ entry, rank: rankOf(entry.path) }))
  inOrder.sort((a, b) => (a.rank < b.rank ? -1 : Number(a.rank > b.rank)))
  for (const { entry } of inOrder) {
    const { name, method, path, middlewares } = entry
    router.register(patternOf(path), [method], [...middlewares], { name })
  }
  return router
}

/** Translates a path for path-to-regexp: `/actions/{slug}:invoke` becomes `/actions/:slug\:invoke`. */
const patternOf = (path: string): string =>
  path.replaceAll(':', String.raw`\:`).replaceAll(/\{(\w+)\}/g, ':$1')

const MAX_SUFFIX = 999

/**
 * Returns a sort key: of two paths that match the same request, the one whose first different segment is more specific
 * comes first.
 */
const rankOf = (path: string): string =>
  segmentsOf(path)
    .map((segment) => {
      if (!segment.startsWith('{')) return 'a'
      const suffix = suffixOf(segment)
      return suffix ? `b${String(MAX_SUFFIX - suffix.length).padStart(3, '0')}` : 'c'
    })
    .join('/')

const segmentsOf = (path: string): string[] => path.split('/').slice(1)
const suffixOf = (segment: string): string => segment.slice(segment.indexOf('}') + 1)

/** Throws if two routes have the same method and path, or different names for the same parameter. */
function refuseAmbiguous(entries: readonly RouterEntry[]): void {
  const seen = new Set<string>()
  const names = new Map<string, string>()
  for (const { method, path } of entries) {
    if (seen.has(`${method} ${path}`)) throw new Error(`${method} ${path} is declared twice`)
    seen.add(`${method} ${path}`)

    for (const { index, 0: parameter } of path.matchAll(/\{\w+\}/g)) {
      const prefix = path.slice(0, index) + suffixOf(path.slice(index).split('/')[0] ?? '')
      const known = names.get(prefix) ?? parameter
      if (known !== parameter) throw new Error(`${parameter} and ${known} are at the same position`)
      names.set(prefix, parameter)
    }
  }
}

/**
 * Decodes a path for the router. Each segment is decoded separately, so `%3Ainvoke` becomes `:invoke`, except for
 * slashes and percent signs, which the router decodes after splitting. Throws a `URIError` for a segment with invalid
 * encoding.
 */
export const routedPath = (path: string): string =>
  path.includes('%') ? path.split('/').map(decodeSegment).join('/') : path

const decodeSegment = (segment: string): string =>
  decodeURIComponent(segment).replaceAll('%', '%25').replaceAll('/', '%2F')

/** Returns whether a route matches the path up to its first segment that cannot be decoded. */
export function leadsToMalformed(entries: readonly RouterEntry[], path: string): boolean {
  const given: string[] = []
  for (const segment of segmentsOf(path)) {
    try {
      given.push(decodeURIComponent(segment))
    } catch {
      break
    }
  }
  return entries.some(({ path: declared }) => {
    const segments = segmentsOf(declared)
    return given.length <= segments.length && given.every((text, at) => fits(segments[at] ?? '', text))
  })
}

function fits(segment: string, text: string): boolean {
  if (!segment.startsWith('{')) return segment === text
  const suffix = suffixOf(segment)
  return text.length > suffix.length && text.endsWith(suffix)
}
