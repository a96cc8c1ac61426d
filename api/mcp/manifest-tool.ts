import type { ToolAnnotations } from '@modelcontextprotocol/server'
import { Invocation } from '../../schemas/action.ts'
import type { ToolManifest } from '../../schemas/tool.ts'
import type { Tool as Manifest } from '../manifest/tool.ts'
import { invokeTool } from './invoke-tool.ts'
import { publicSchema } from './json-schema.ts'
import type { CallContext, JsonObject, Tool, ToolResult } from './tool.ts'

const known = new WeakMap<Manifest, ManifestTool>()

const INVOCATION = publicSchema(Invocation)

/** A tool of a manifest: an endpoint, whose input its arguments are, or an operation, whose body they are. */
export class ManifestTool implements Tool {
  readonly name: string
  readonly #manifest: Manifest
  #shown: Omit<Tool, 'call' | 'name'> | undefined

  private constructor(manifest: Manifest) {
    this.name = manifest.slug
    this.#manifest = manifest
  }

  /** Returns the same tool for the same manifest, so that what it shows is made once. */
  static of(manifest: Manifest): ManifestTool {
    let tool = known.get(manifest)
    if (!tool) known.set(manifest, (tool = new ManifestTool(manifest)))
    return tool
  }

  get title(): string {
    return this.#described.title
  }

  get description(): string {
    return this.#described.description
  }

  get inputSchema(): JsonObject {
    return this.#described.inputSchema
  }

  get outputSchema(): JsonObject | undefined {
    return this.#described.outputSchema
  }

  get annotations(): ToolAnnotations {
    return this.#described.annotations
  }

  get meta(): JsonObject | undefined {
    return this.#described.meta
  }

  call(args: JsonObject, context: CallContext): Promise<ToolResult> {
    return invokeTool(this.name, args, context)
  }

  get #described() {
    return (this.#shown ??= describe(this.#manifest.manifest))
  }
}

function describe(manifest: ToolManifest): Omit<Tool, 'call' | 'name'> {
  const { displayName, description, longDescription, kind, annotations } = manifest
  const { readOnly, idempotent, destructive, openWorld } = annotations
  const outputSchema = kind === 'operation' ? INVOCATION : objectSchema(manifest.outputSchema)
  return {
    title: displayName,
    description: longDescription ?? description,
    // Arguments are always an object, and clients refuse a whole list for one schema that does not say so.
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

/** The protocol has output schemas of objects only. */
const objectSchema = (schema: JsonObject | undefined): JsonObject | undefined =>
  schema?.['type'] === 'object' ? schema : undefined
