import type { ValidateFunction } from 'ajv/dist/2020.js'
import { ApiError, type Issue } from '../../../domain/errors.ts'
import { compileUserSchema, UserSchemaError } from '../../../platform/user-schema.ts'

interface Listing {
  input_schema: Record<string, unknown>
  output_schema: Record<string, unknown>
  example_input: Record<string, unknown>
  example_output: Record<string, unknown>
}

/** Refuses schemas that are none, and examples that break the schema beside them. */
export function checkListing(listing: Listing): void {
  const issues = [
    ...issuesOf(listing, 'input_schema', 'example_input'),
    ...issuesOf(listing, 'output_schema', 'example_output'),
  ]
  const [first] = issues
  if (first)
    throw new ApiError('validation_failed', `${first.loc.join('.')}: ${first.msg}`, { details: { issues } })
}

function issuesOf(
  listing: Listing,
  schema: 'input_schema' | 'output_schema',
  example: 'example_input' | 'example_output',
): Issue[] {
  let validate: ValidateFunction
  try {
    validate = compileUserSchema(listing[schema])
  } catch (err) {
    if (!(err instanceof UserSchemaError)) throw err
    return [
      { loc: ['body', schema], msg: `is not a usable JSON Schema: ${err.message}`, type: 'json_schema' },
    ]
  }
  if (validate(listing[example])) return []
  const [error] = validate.errors ?? []
  const place = error?.instancePath ? ` at ${error.instancePath}` : ''
  return [
    {
      loc: ['body', example],
      msg: `does not fit ${schema}${place}: ${error?.message ?? 'not valid'}`,
      type: 'example',
    },
  ]
}
