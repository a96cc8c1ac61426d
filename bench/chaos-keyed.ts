import { randomUUID } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { Database } from '../db/tables.ts'
import { cohortBody } from './chaos-cohorts.ts'
import { type Customer, type KeyedResource, postOnce, type Shift } from './chaos-customer.ts'
import { oneOf, type Random, type Tally } from './chaos-tally.ts'
import { toolRequest } from './chaos-tools.ts'

/** The number of clients that send the same request at once. */
const CLIENTS = 5
const ATTEMPTS_AGAIN = 2

/** Sends one request from several clients at once under one key, and again later: all must get the same response. */
export async function sendAtOnce(customer: Customer, shift: Shift, random: Random): Promise<void> {
  const kind = oneOf(random, ['dataset', 'key', 'cohort', 'tool'] as const) ?? 'dataset'
  const name = `at-once-${randomUUID()}`
  const { path, body, idOf, keep } = requestOf(customer, kind, { name, random })
  const key = randomUUID()
  const send = () =>
    shift.tally.insist(`${kind} at once`, () => postOnce(customer, path, { body, key }), shift.patience)
  const answers = await Promise.all(Array.from({ length: CLIENTS }, send))
  for (let i = 0; i < ATTEMPTS_AGAIN; i++) answers.push(await send())
  const texts = answers.filter((text) => text !== undefined)
  const [first] = texts
  if (first === undefined) return
  const different = new Set(texts.map(idOf))
  if (different.size > 1)
    shift.tally.violation('one key gets one response', `${kind} ${name}: ${[...different].join(' | ')}`)
  keep?.(first)
  customer.keyed.push({ kind, name: kind === 'tool' ? idOf(first) : name })
}

interface KeyedRequest {
  path: string
  body: object
  /** Returns the part that must be equal in all responses. */
  idOf: (text: string) => string
  /** Records the resource for the checks of its kind. */
  keep?: (text: string) => void
}

function requestOf(
  customer: Customer,
  kind: KeyedResource['kind'],
  { name, random }: { name: string; random: Random },
): KeyedRequest {
  const whole = (text: string) => text
  switch (kind) {
    case 'dataset': {
      const body = { dataset_name: name, storage_format: 'csv' }
      return { path: 'builder/v1/datasets', body, idOf: whole }
    }
    case 'key':
      return { path: 'builder/v1/keys', body: { name, role: 'viewer' }, idOf: whole }
    case 'cohort': {
      const keep = (text: string) => {
        const { task_id: taskId } = JSON.parse(text) as { task_id: string }
        customer.cohorts.push({ taskId })
      }
      return { path: 'v1/cohorts:run', body: cohortBody(customer, random, name), idOf: whole, keep }
    }
    case 'tool': {
      const { slug, body, expected } = toolRequest(random)
      // Each response shows the current state of the invocation, so compare only the ids.
      const idOf = (text: string) => (JSON.parse(text) as { invocation_id: string }).invocation_id
      const keep = (text: string) => customer.toolCalls.push({ invocationId: idOf(text), slug, expected })
      return { path: `builder/v1/actions/${slug}:invoke`, body, idOf, keep }
    }
  }
}

/** Checks that each set of identical requests created one resource, and that no account has other invocations. */
export async function checkKeyed(
  db: Kysely<Database>,
  tally: Tally,
  { name: who, platform, keyed, toolCalls }: Customer,
): Promise<void> {
  const accountId = platform.ready.account_id
  const { rows } = await sql<{ kind: KeyedResource['kind']; name: string }>`
    select 'dataset' as kind, dataset_name as name from dataset where account_id = ${accountId}
    union all select 'key', name from api_key where account_id = ${accountId}
    union all select 'cohort', name from cohort where account_id = ${accountId}
    union all select 'tool', id::text from invocation where account_id = ${accountId}`.execute(db)
  const times = Map.groupBy(rows, (row) => `${row.kind} ${row.name}`)
  for (const { kind, name } of keyed) {
    const n = times.get(`${kind} ${name}`)?.length ?? 0
    if (n !== 1) tally.violation('one key creates one resource', `${n} of ${kind} ${name} of ${who}`)
  }
  const n = rows.filter(({ kind }) => kind === 'tool').length
  if (n !== toolCalls.length)
    tally.violation('one key creates one resource', `${n} invocations by ${who} for ${toolCalls.length} keys`)
}
