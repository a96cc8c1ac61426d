import { hash } from 'node:crypto'
import type { ToolKind, ToolManifest, ToolStability } from '../../schemas/tool.ts'

/** The endpoint of a tool, and who sees it: its owner sees more of it than everybody else. */
export interface ToolOrigin {
  readonly endpointId: string
  readonly side: 'own' | 'public'
}

/** Returns the JSON text of a manifest. */
export const textOf = (manifest: ToolManifest): Buffer => Buffer.from(JSON.stringify(manifest))

/** A tool of a manifest. The text of one that has an endpoint may be large, and is in `ToolTexts`. */
export class Tool {
  /** Operations have none. */
  readonly origin: ToolOrigin | undefined
  readonly slug: string
  readonly kind: ToolKind
  readonly stability: ToolStability
  readonly version: string
  /** The length of the text. */
  readonly bytes: number
  /** SHA-256 of the text. */
  readonly digest: Buffer
  /** The text of a tool without an endpoint, from which it could be read again. */
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
