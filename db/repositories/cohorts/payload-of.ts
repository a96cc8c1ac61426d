import { hash } from 'node:crypto'
import { carriedBy, faultOfValue, isByValue, type ValueEdge } from '../../../domain/cohorts/values.ts'
import { cohortValueKey } from '../../../domain/object-keys.ts'
import { COHORT_LIMITS } from '../../../schemas/cohorts/plan.ts'
import type { CohortEdgeRow } from '../../tables/cohorts.ts'

/** A value as the bytes of a payload, with their digest. */
export interface ValuePayload {
  payload: Buffer
  sha256: string
  size_bytes: number
}

export function payloadOf(value: unknown): ValuePayload {
  const payload = Buffer.from(JSON.stringify(value))
  return { payload, sha256: hash('sha256', payload, 'hex'), size_bytes: payload.length }
}

/** The values that edges take from one result are too large in total, or one does not match its edge's kind. */
export class UnfitValuesError extends Error {
  override readonly name = 'UnfitValuesError'
}

/**
 * The payloads that edges carry from a result. Each value is serialized and hashed once, however many edges carry it.
 */
export class ResultPayloads {
  readonly #result: unknown
  readonly #known = new Map<string, ValuePayload | undefined>()
  #bytes = 0

  constructor(result: unknown) {
    this.#result = result
  }

  /**
   * Returns what an edge carries; undefined if there is no value, or for a representation. Throws an
   * `UnfitValuesError`.
   */
  of(
    edge: Pick<CohortEdgeRow, 'kind'> & Pick<ValueEdge, 'from_path' | 'template'>,
  ): ValuePayload | undefined {
    if (!isByValue(edge.kind)) return undefined
    const cacheKey = JSON.stringify([edge.kind, edge.from_path, edge.template])
    if (!this.#known.has(cacheKey)) {
      const value = carriedBy(edge, this.#result)
      const fault = value === undefined ? undefined : faultOfValue(edge.kind, value)
      if (fault !== undefined)
        throw new UnfitValuesError(`the value of an edge of kind ${edge.kind} ${fault}`)
      const payload = value === undefined ? undefined : payloadOf(value)
      this.#bytes += payload?.size_bytes ?? 0
      if (this.#bytes > COHORT_LIMITS.valueBytes)
        throw new UnfitValuesError(
          `the values that its edges take from the result exceed ${COHORT_LIMITS.valueBytes} bytes in total; select smaller parts with "path", or hand the result over as a file`,
        )
      this.#known.set(cacheKey, payload)
    }
    return this.#known.get(cacheKey)
  }
}

interface StoredValue {
  edge: Pick<CohortEdgeRow, 'id' | 'cohort_id'>
  accountId: string
  value: Pick<ValuePayload, 'sha256' | 'size_bytes'>
}

/** Returns the key of a value that is too large for a row; undefined for any other. */
export function valueKey({
  edge,
  accountId,
  value: { sha256, size_bytes },
}: StoredValue): string | undefined {
  if (size_bytes <= COHORT_LIMITS.inlineBytes) return undefined
  return cohortValueKey({ accountId, cohortId: edge.cohort_id, edgeId: edge.id, sha256 })
}
