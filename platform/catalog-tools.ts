import { existsSync, readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { CatalogTool } from '../schemas/catalog-tool.ts'
import { badFile, checkedFile } from './catalog-files.ts'

const ajv = new Ajv2020({ allErrors: true, strict: false })
const checkTool = ajv.compile<CatalogTool>(CatalogTool)

/** A tool of the catalog and the folder of its program. */
export interface ToolFolder {
  tool: CatalogTool
  program: string
}

/** Reads the tools in a folder, one subfolder per tool. An invalid file throws an error that names it. */
export function loadTools(directory: string): ToolFolder[] {
  if (!existsSync(directory)) return []
  return readdirSync(directory)
    .toSorted()
    .filter((name) => existsSync(join(directory, name, 'tool.json')))
    .map((name) => readTool(join(directory, name, 'tool.json')))
}

/** Reads the description of one tool. */
function readTool(file: string): ToolFolder {
  const tool = checkedFile(file, checkTool)
  const program = dirname(file)
  if (tool.slug !== basename(program)) throw badFile(file, '/slug', 'differs from the folder name')
  const fault = toolFault(tool)
  if (fault) throw badFile(file, fault.path, fault.problem)
  return { tool, program }
}

/** Returns the first problem of a tool that its schema can't express: missing input fields, bad schemas or examples. */
export function toolFault(tool: CatalogTool): { path: string; problem: string } | undefined {
  const { properties = {} } = tool.input_schema as { properties?: Record<string, unknown> }
  const fields = [
    ...Object.keys(tool.texts ?? {}),
    ...Object.keys(tool.files ?? {}),
    tool.time_field ?? [],
  ].flat()
  const unknown = fields.find((field) => !(field in properties))
  if (unknown !== undefined) return { path: '/input_schema/properties', problem: `lacks ${unknown}` }
  for (const part of ['input', 'output'] as const) {
    const path = `/${part}_schema`
    let validate: ValidateFunction
    try {
      validate = ajv.compile(tool[`${part}_schema`])
    } catch (cause) {
      return { path, problem: `is not a JSON Schema: ${(cause as Error).message}` }
    }
    const n = tool.examples.findIndex((example) => !validate(example[part]))
    if (n >= 0) return { path: `/examples/${n}/${part}`, problem: ajv.errorsText(validate.errors) }
  }
  return undefined
}
