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

/** Reads the tools below a folder, one folder each. A bad file stops the start with an error that names it. */
export function loadTools(directory: string): ToolFolder[] {
  if (!existsSync(directory)) return []
  return readdirSync(directory)
    .toSorted()
    .filter((name) => existsSync(join(directory, name, 'tool.json')))
    .map((name) => readTool(join(directory, name, 'tool.json')))
}

/** Reads the description of one tool. */
export function readTool(file: string): ToolFolder {
  const tool = checkedFile(file, checkTool)
  const program = dirname(file)
  if (tool.slug !== basename(program)) throw badFile(file, '/slug', 'differs from the name of the folder')
  for (const field of [...Object.keys(tool.texts ?? {}), ...Object.keys(tool.files ?? {})]) {
    const { properties = {} } = tool.input_schema as { properties?: Record<string, unknown> }
    if (!(field in properties)) throw badFile(file, '/input_schema/properties', `lacks ${field}`)
  }
  const check = compile(file, '/input_schema', tool.input_schema)
  const checkOutput = compile(file, '/output_schema', tool.output_schema)
  tool.examples.forEach(({ input, output }, n) => {
    for (const [part, validate, value] of [
      ['input', check, input],
      ['output', checkOutput, output],
    ] as const)
      if (!validate(value)) throw badFile(file, `/examples/${n}/${part}`, ajv.errorsText(validate.errors))
  })
  return { tool, program }
}

function compile(file: string, path: string, schema: Record<string, unknown>): ValidateFunction {
  try {
    return ajv.compile(schema)
  } catch (cause) {
    throw badFile(file, path, `is no JSON Schema: ${String(cause)}`, cause)
  }
}
