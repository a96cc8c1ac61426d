import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TSchema } from 'typebox'
import { PlanReasonCode } from '../../schemas/cohort-plan.ts'
import {
  CohortEventType,
  CohortState,
  EdgeFailure,
  EdgeMode,
  EdgeState,
  StageState,
  Transport,
} from '../../schemas/cohort-vocabulary.ts'
import { valuesOf } from '../../schemas/common.ts'

const ROOT = join(import.meta.dirname, '../..')
/** The places where the faults of cohorts, of their stages and of endpoints in a cohort are made. */
const SOURCES = [
  'activities/control/cohorts',
  'activities/control/housekeeping/reconcile.ts',
  'activities/node/cohorts',
  'activities/node/models/ask-model.ts',
  'api/cohorts',
  'api/routes/orchestrator/cohorts',
  'db/repositories/cohorts',
  'domain/cohorts',
  'node-runtime/models/manager.ts',
  'workflows/cohort',
  'workflows/cohort-run.ts',
]
/** The rest of a line that gives a code, up to its message, and constants that say they are one. */
const GIVEN =
  /\bcode(?:: | = )((?:(?!message)[^\n])*)|\/\*\* The code of [^\n]*\n(?:export )?const \w+ = ([^\n]*)/g
const WORD = /(?<!\[)'([a-z]+(?:_[a-z]+)*)'/g

/** Returns the codes that a source gives. */
const codesIn = (text: string): string[] =>
  [...text.matchAll(GIVEN)].flatMap(([, member, constant]) =>
    [...(member ?? constant ?? '').matchAll(WORD)].map(([, word]) => word!),
  )

const textsAt = (place: string): string[] =>
  place.endsWith('.ts')
    ? [readFileSync(join(ROOT, place), 'utf8')]
    : readdirSync(join(ROOT, place), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .map((name) => readFileSync(join(ROOT, place, name), 'utf8'))

describe('docs/cohorts.md', () => {
  const page = readFileSync(join(ROOT, 'docs/cohorts.md'), 'utf8')
  const missing = (words: readonly string[]) => words.filter((word) => !page.includes(`\`${word}\``))

  const vocabularies: Record<string, TSchema> = {
    'states of cohorts': CohortState,
    'states of stages': StageState,
    'states of hand-overs': EdgeState,
    'failures of hand-overs': EdgeFailure,
    'reasons of plans': PlanReasonCode,
    events: CohortEventType,
    ways: Transport,
    modes: EdgeMode,
  }
  for (const [name, vocabulary] of Object.entries(vocabularies))
    it(`names all ${name}`, () => assert.deepEqual(missing(valuesOf(vocabulary)), []))

  it('names every code that the error of a cohort or a stage may have', () => {
    const codes = [...new Set(SOURCES.flatMap(textsAt).flatMap(codesIn))].toSorted()

    // Those of one kind of place each, so that none is left out unseen.
    for (const code of ['not_taken', 'node_lost', 'input_refused', 'timeout', 'stage_unfinished', 'no_room'])
      assert.ok(codes.includes(code), `${code} is not among ${codes.join(', ')}`)
    assert.deepEqual(missing(codes), [])
  })
})
