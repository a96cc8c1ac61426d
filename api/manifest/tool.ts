import { hash } from 'node:crypto'
import type { ToolKind, ToolManifest, ToolStability } from '../../schemas/tool.ts'

/** A tool of a manifest, serialized once. */
export class Tool {
  /** The id of its endpoint; an operation has none. */
  readonly endpointId: string | undefined
  readonly slug: string
  readonly kind: ToolKind
  readonly stability: ToolStability
  readonly version: string
  /** The manifest as JSON. */
  readonly fragment: Buffer
  /** SHA-256 of the fragment. */
  readonly digest: Buffer

  constructor(manifest: ToolManifest, endpointId?: string) {
    this.endpointId = endpointId
    this.slug = manifest.name
    this.kind = manifest.kind
    this.stability = manifest.stability
    this.version = manifest.version
    this.fragment = Buffer.from(JSON.stringify(manifest))
    this.digest = hash('sha256', this.fragment, 'buffer')
  }

  /** The manifest, parsed anew at each use, because only its text is held in memory. */
  get manifest(): ToolManifest {
    return JSON.parse(this.fragment.toString()) as ToolManifest
  }
}

/** Returns the place of a slug in tools that are sorted by slug, or where it belongs. */
export function placeOf(tools: readonly Tool[], slug: string): number {
  let [low, high] = [0, tools.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    const tool = tools[middle]
    if (tool && tool.slug < slug) low = middle + 1
    else high = middle
  }
  return low
}
