import { hash } from 'node:crypto'
import { cohortValueKey } from '../../../domain/object-keys.ts'
import { COHORT_LIMITS } from '../../../schemas/cohort-plan.ts'
import type { CohortEdgeRow } from '../../tables/cohorts.ts'

/** Returns a value as the bytes of a payload, with their digest. */
export function payloadOf(value: unknown): { payload: Buffer; sha256: string; size_bytes: number } {
  const payload = Buffer.from(JSON.stringify(value))
  return { payload, sha256: hash('sha256', payload, 'hex'), size_bytes: payload.length }
}

interface CarriedValue {
  edge: Pick<CohortEdgeRow, 'id' | 'cohort_id'>
  accountId: string
  value: unknown
}

/** Returns the key of a value that is too large for a row; undefined for any other. */
export function valueKey({ edge, accountId, value }: CarriedValue): string | undefined {
  const { size_bytes, sha256 } = payloadOf(value)
  if (size_bytes <= COHORT_LIMITS.inlineBytes) return undefined
  return cohortValueKey({ accountId, cohortId: edge.cohort_id, edgeId: edge.id, sha256 })
}
