import { compileWeighed, faultsOf, type CompiledSchema } from '../../platform/schema-checks/check.ts'
import type { CatalogTool } from '../../schemas/catalog-tool.ts'

const compiled = new WeakMap<CatalogTool, CompiledSchema>()

/** Validates an input against the schema of its tool. Returns a message if it is invalid, undefined otherwise. */
export function inputRefusal(tool: CatalogTool, input: Record<string, unknown>): string | undefined {
  const schema = compiled.get(tool) ?? compileWeighed(tool.input_schema)
  compiled.set(tool, schema)
  const [fault] = faultsOf(schema.validate, input)
  if (!fault) return undefined
  const { instancePath, message = 'is not valid', params } = fault
  const more = (params as { additionalProperty?: unknown }).additionalProperty
  const named = typeof more === 'string' ? `: "${more}"` : ''
  return `the input of the tool ${tool.slug} is invalid: ${instancePath || 'the input'} ${message}${named}`
}
