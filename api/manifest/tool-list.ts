import { hash } from 'node:crypto'
import type { ToolFilter } from '../../domain/tools/filter.ts'
import { VERSION } from '../../platform/version.ts'
import { PROTOCOL_VERSION } from '../../schemas/tool.ts'
import { etagOfDigest } from '../http/etag.ts'
import type { ToolSet } from './tool-set.ts'
import { placeOf, type Tool } from './tool.ts'

const DIGEST_BYTES = 32
/** The server part of the manifest, which the digest includes. */
const SERVED_BY = Buffer.from(`${PROTOCOL_VERSION} ${VERSION}`)

/** The tools that a caller sees at one moment, sorted by slug. */
export class ToolList {
  readonly tools: readonly Tool[]
  /** A digest of all tools: equal lists have equal digests. */
  readonly digest: Buffer
  /** The list's weak ETag, in header form. */
  readonly etag: string

  constructor(tools: readonly Tool[]) {
    this.tools = tools
    const digests = Buffer.allocUnsafe(SERVED_BY.length + tools.length * DIGEST_BYTES)
    SERVED_BY.copy(digests)
    for (const [index, { digest }] of tools.entries())
      digest.copy(digests, SERVED_BY.length + index * DIGEST_BYTES)
    this.digest = hash('sha256', digests, 'buffer')
    this.etag = `W/${etagOfDigest(this.digest.toString('base64url'))}`
  }

  find(slug: string): Tool | undefined {
    const tool = this.tools[placeOf(this.tools, slug)]
    return tool?.slug === slug ? tool : undefined
  }
}

interface Parts {
  /** The platform's operations, which hide endpoints of the same name. */
  operations: readonly Tool[]
  own: ToolSet
  publics: ToolSet
}

/** Merges the tools that an account may call and keeps those that all filters allow. */
export function mergeTools({ operations, own, publics }: Parts, filters: readonly ToolFilter[]): ToolList {
  const taken = new Set(operations.map(({ slug }) => slug))
  const lists = [
    operations,
    own.tools.filter(({ slug }) => !taken.has(slug)),
    // If an account's own tool is public, show the owner's view of it.
    publics.tools.filter(({ slug, origin }) => !taken.has(slug) && !own.has(origin?.endpointId ?? '')),
  ]
  const merged = lists.reduce(mergeSorted, [])
  return new ToolList(
    filters.length === 0 ? merged : merged.filter((tool) => filters.every((filter) => filter.allows(tool))),
  )
}

function mergeSorted(left: readonly Tool[], right: readonly Tool[]): readonly Tool[] {
  if (left.length === 0) return right
  if (right.length === 0) return left
  const merged: Tool[] = []
  let [l, r] = [0, 0]
  for (;;) {
    const [a, b] = [left[l], right[r]]
    if (a && (!b || a.slug <= b.slug)) {
      merged.push(a)
      l += 1
    } else if (b) {
      merged.push(b)
      r += 1
    } else return merged
  }
}
