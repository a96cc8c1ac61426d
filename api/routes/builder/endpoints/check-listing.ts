import type { Listing } from '../../../../db/repositories/models/listing.ts'
import { ApiError, type Issue, temporaryError } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import type { SchemaChecks } from '../../../../platform/schema-checks/checks.ts'
import { toIssues } from '../../../http/issues.ts'

/** Refuses invalid schemas, schemas that are too expensive, and examples that break the schema beside them. */
export async function checkListing(checks: SchemaChecks, owner: string, listing: Listing): Promise<void> {
  const issues = await Promise.all([
    issueOf(checks, owner, listing, 'input_schema', 'example_input'),
    issueOf(checks, owner, listing, 'output_schema', 'example_output'),
  ])
  const found = issues.filter((issue) => issue !== undefined)
  const [first] = found
  if (first)
    throw new ApiError('validation_failed', `${first.loc.join('.')}: ${first.msg}`, {
      details: { issues: found },
    })
}

async function issueOf(
  checks: SchemaChecks,
  owner: string,
  listing: Listing,
  schema: 'input_schema' | 'output_schema',
  example: 'example_input' | 'example_output',
): Promise<Issue | undefined> {
  const result = await checks.check({
    owner,
    key: newId(),
    schema: listing[schema],
    value: Buffer.from(JSON.stringify(listing[example])),
  })
  if ('busy' in result) {
    throw temporaryError(
      'no_capacity',
      'too many schemas of this account are being checked; try again in a moment',
      1,
    )
  }
  if ('stopped' in result) return notUsable(schema, `holding ${example} against it takes too long`)
  if ('unusable' in result) return notUsable(schema, result.unusable)
  const [fault] = toIssues('body', result.faults)
  if (!fault) return undefined
  const { loc, msg } = fault
  return {
    loc: ['body', example, ...loc.slice(1)],
    msg: `does not fit ${schema}: ${msg}`,
    type: 'example',
  }
}

const notUsable = (schema: string, why: string): Issue => ({
  loc: ['body', schema],
  msg: `is not a usable JSON Schema: ${why}`,
  type: 'json_schema',
})
