import { Invocation } from '../../schemas/action.ts'
import type { ToolManifest } from '../../schemas/tool.ts'
import type { ToolTexts } from '../manifest/tool-texts.ts'
import type { Tool as Manifest } from '../manifest/tool.ts'
import { invokeTool } from './invoke-tool.ts'
import { publicSchema } from './json-schema.ts'
import type { CallContext, JsonObject, ReadTool, ToolDescription, ToolResult } from './tool.ts'

const known = new WeakMap<Manifest, ManifestTool>()

const INVOCATION = publicSchema(Invocation)

/** A manifest's tool: its arguments are the input of an endpoint, or the body of an operation. */
export class ManifestTool implements ReadTool {
  readonly name: string
  readonly #manifest: Manifest
  readonly #texts: ToolTexts

  private constructor(manifest: Manifest, texts: ToolTexts) {
    this.name = manifest.slug
    this.#manifest = manifest
    this.#texts = texts
  }

  /** Returns the same tool for the same manifest, so its JSON is built only once. */
  static of(manifest: Manifest, texts: ToolTexts): ManifestTool {
    let tool = known.get(manifest)
    if (!tool) known.set(manifest, (tool = new ManifestTool(manifest, texts)))
    return tool
  }

  async describe(): Promise<ToolDescription> {
    return describe(await this.#texts.manifest(this.#manifest))
  }

  call(args: JsonObject, context: CallContext): Promise<ToolResult> {
    return invokeTool(this.name, args, context)
  }
}

function describe(manifest: ToolManifest): ToolDescription {
  const { displayName, description, longDescription, kind, annotations } = manifest
  const { readOnly, idempotent, destructive, openWorld } = annotations
  const outputSchema = kind === 'operation' ? INVOCATION : objectSchema(manifest.outputSchema)
  return {
    title: displayName,
    description: withDeprecation(manifest.deprecation, longDescription ?? description),
    // Arguments are always an object, and clients reject the whole list if one schema doesn't say so.
    inputSchema: { ...manifest.inputSchema, type: 'object' },
    outputSchema,
    annotations: {
      readOnlyHint: readOnly,
      idempotentHint: idempotent,
      destructiveHint: destructive,
      openWorldHint: openWorld,
    },
    meta: {
      'hearth/kind': kind,
      'hearth/version': manifest.version,
      'hearth/stability': manifest.stability,
      'hearth/latency_class': manifest.latencyClass,
      'hearth/cost_hint': manifest.costHint,
      ...(manifest.deprecation && { 'hearth/deprecation': manifest.deprecation }),
    },
  }
}

/** The protocol has no field for deprecations, so use the description, which agents read. */
function withDeprecation(deprecation: ToolManifest['deprecation'], description: string): string {
  if (!deprecation) return description
  const { replacedBy } = deprecation
  return `Deprecated: ${replacedBy === null ? 'it may be removed soon' : `use ${replacedBy} instead`}. ${description}`
}

/** The protocol only allows objects in output schemas. */
const objectSchema = (schema: JsonObject | undefined): JsonObject | undefined =>
  schema?.['type'] === 'object' ? schema : undefined
