import type { Listing } from '../../../../db/repositories/models/listing.ts'
import type { StoredExample } from '../../../../db/tables/models.ts'
import { ApiError, type Issue, temporaryError } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import type { SchemaChecks } from '../../../../platform/schema-checks/checks.ts'
import { toIssues } from '../../../http/issues.ts'

/** Rejects invalid schemas, schemas that are too expensive, and examples that do not match their schema. */
export async function checkListing(
  checks: SchemaChecks,
  owner: string,
  { examples, ...listing }: Listing & { examples: readonly StoredExample[] },
): Promise<void> {
  const issueOf = (schema: 'input_schema' | 'output_schema', value: object, loc: Issue['loc']) =>
    issueOfExample(checks, { owner, name: schema, schema: listing[schema], value, loc })
  const issues = await Promise.all([
    issueOf('input_schema', listing.example_input, ['body', 'example_input']),
    issueOf('output_schema', listing.example_output, ['body', 'example_output']),
    ...examples.flatMap(({ input, output }, index) => [
      issueOf('input_schema', input, ['body', 'examples', index, 'input']),
      issueOf('output_schema', output, ['body', 'examples', index, 'output']),
    ]),
  ])
  const found = issues.filter((issue) => issue !== undefined)
  const [first] = found
  if (first)
    throw new ApiError('validation_failed', `${first.loc.join('.')}: ${first.msg}`, {
      details: { issues: found },
    })
}

interface ExampleCheck {
  owner: string
  name: 'input_schema' | 'output_schema'
  schema: Record<string, unknown>
  value: object
  /** The location of the value in the request. */
  loc: Issue['loc']
}

async function issueOfExample(
  checks: SchemaChecks,
  { owner, name, schema, value, loc }: ExampleCheck,
): Promise<Issue | undefined> {
  const result = await checks.check({
    owner,
    key: newId(),
    schema,
    value: Buffer.from(JSON.stringify(value)),
  })
  if ('busy' in result) {
    throw temporaryError(
      'no_capacity',
      'too many schemas from this account are being checked; try again in a moment',
      1,
    )
  }
  if ('stopped' in result)
    return notUsable(name, `validating ${loc.slice(1).join('.')} against it takes too long`)
  if ('unusable' in result) return notUsable(name, result.unusable)
  const [fault] = toIssues('body', result.faults)
  if (!fault) return undefined
  return {
    loc: [...loc, ...fault.loc.slice(1)],
    msg: `does not match ${name}: ${fault.msg}`,
    type: 'example',
  }
}

const notUsable = (schema: string, why: string): Issue => ({
  loc: ['body', schema],
  msg: `is not a usable JSON Schema: ${why}`,
  type: 'json_schema',
})
