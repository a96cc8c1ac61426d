import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TSchema } from 'typebox'
import { PlanReasonCode } from '../../schemas/cohorts/plan.ts'
import {
  CohortEventType,
  CohortState,
  EdgeFailure,
  EdgeMode,
  EdgeState,
  StageState,
  Transport,
} from '../../schemas/cohorts/vocabulary.ts'
import { valuesOf } from '../../schemas/common.ts'

const ROOT = join(import.meta.dirname, '../..')
/** The sources that produce errors for cohorts, for their stages and for endpoints in a cohort. */
const SOURCES = [
  'activities/control/cohorts',
  'activities/control/housekeeping/reconcile.ts',
  'activities/node/cohorts',
  'activities/node/models/call-model.ts',
  'api/cohorts',
  'api/routes/orchestrator/cohorts',
  'db/repositories/cohorts',
  'domain/cohorts',
  'node-runtime/models/manager.ts',
  'workflows/cohort',
  'workflows/cohort-run.ts',
]
/** Matches the part of a line that sets a code, up to its message, and constants that are documented as codes. */
const GIVEN =
  /\bcode(?:: | = )((?:(?!message)[^\n])*)|\/\*\* The code (?:of|for) [^\n]*\n(?:export )?const \w+ = ([^\n]*)/g
const WORD = /(?<!\[)'([a-z]+(?:_[a-z]+)*)'/g

/** Returns the codes in a source file. */
const codesIn = (text: string): string[] =>
  [...text.matchAll(GIVEN)].flatMap(([, member, constant]) =>
    [...(member ?? constant ?? '').matchAll(WORD)].map(([, word]) => word!),
  )

const textsAt = (path: string): string[] =>
  path.endsWith('.ts')
    ? [readFileSync(join(ROOT, path), 'utf8')]
    : readdirSync(join(ROOT, path), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .map((name) => readFileSync(join(ROOT, path, name), 'utf8'))

describe('docs/cohorts.md', () => {
  const page = readFileSync(join(ROOT, 'docs/cohorts.md'), 'utf8')
  const missing = (words: readonly string[]) => words.filter((word) => !page.includes(`\`${word}\``))

  const vocabularies: Record<string, TSchema> = {
    'cohort states': CohortState,
    'stage states': StageState,
    'hand-over states': EdgeState,
    'hand-over failures': EdgeFailure,
    'plan reasons': PlanReasonCode,
    events: CohortEventType,
    transports: Transport,
    'hand-over modes': EdgeMode,
  }
  for (const [name, vocabulary] of Object.entries(vocabularies))
    it(`names all ${name}`, () => assert.deepEqual(missing(valuesOf(vocabulary)), []))

  it('lists every error code of a cohort or a stage', () => {
    const codes = [...new Set(SOURCES.flatMap(textsAt).flatMap(codesIn))].toSorted()

    // One code from each kind of source, so that the search can't silently skip a kind.
    for (const code of ['not_taken', 'node_lost', 'input_refused', 'timeout', 'stage_unfinished', 'no_room'])
      assert.ok(codes.includes(code), `${code} is not among ${codes.join(', ')}`)
    assert.deepEqual(missing(codes), [])
  })
})
