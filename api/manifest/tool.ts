import { hash } from 'node:crypto'
import type { ToolKind, ToolManifest, ToolStability } from '../../schemas/tool.ts'

/** A tool's endpoint, and whether this is the owner's view, which shows more than the public one. */
export interface ToolOrigin {
  readonly endpointId: string
  readonly side: 'own' | 'public'
}

/** Returns the JSON text of a manifest. */
export const textOf = (manifest: ToolManifest): Buffer => Buffer.from(JSON.stringify(manifest))

/** A tool in a manifest. The text of an endpoint's tool may be large, so it is stored in `ToolTexts`. */
export class Tool {
  /** Undefined for operations. */
  readonly origin: ToolOrigin | undefined
  readonly slug: string
  readonly kind: ToolKind
  readonly stability: ToolStability
  readonly version: string
  /** The length of the text. */
  readonly bytes: number
  /** SHA-256 of the text. */
  readonly digest: Buffer
  /** The text of a tool without an endpoint; other texts can be read again. */
  readonly text: Buffer | undefined

  constructor(manifest: ToolManifest, origin?: ToolOrigin, text = textOf(manifest)) {
    this.origin = origin
    this.slug = manifest.name
    this.kind = manifest.kind
    this.stability = manifest.stability
    this.version = manifest.version
    this.bytes = text.length
    this.digest = hash('sha256', text, 'buffer')
    this.text = origin ? undefined : text
  }
}

/** Returns the index of a slug in sorted tools, or where it would be inserted. */
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
