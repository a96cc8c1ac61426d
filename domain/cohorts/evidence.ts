import type { CompatibilityEvidenceRegistration, ModelSpace } from '../../schemas/cohorts/evaluator.ts'
import { MAPPED, takesEvidence } from './spaces/spaces.ts'

/** The maximum validity of evidence, limited because models and their use change. */
export const MAX_VALIDITY_MS = 180 * 24 * 3_600_000
/** Tolerated clock skew of an evaluator. */
const MAX_CLOCK_SKEW_MS = 60_000
/** Above this p-value the metric proves nothing: broken pairs reach the score too. */
const MAX_P = 0.05

/** A validation error in a registration, with its path in the body. */
export interface EvidenceFault {
  path: string[]
  message: string
}

/** Returns all validation errors of an evidence registration, except those of its adapter's bytes. */
export function faultsOfEvidence(
  body: CompatibilityEvidenceRegistration,
  { source, target, now }: { source: ModelSpace; target: ModelSpace; now: Date },
): EvidenceFault[] {
  const { interval, score, estimate, null_model: chance } = body
  const until = Date.parse(body.valid_until) - now.getTime()
  const faults: [isFault: boolean, path: string[], message: string][] = [
    [!takesEvidence(source.kind), ['source_space_id'], `a space of ${source.kind} needs no evidence`],
    [
      source.kind !== target.kind,
      ['target_space_id'],
      `is a space of ${target.kind}, which a space of ${source.kind} cannot replace`,
    ],
    [score !== interval.low, ['score'], `must be the lower end of the interval, ${interval.low}`],
    [estimate < interval.low || estimate > interval.high, ['estimate'], 'must lie in the interval'],
    [
      chance.p_value > MAX_P,
      ['null_model', 'p_value'],
      `must be at most ${MAX_P}: above it, broken pairs score just as well`,
    ],
    [chance.upper_95 >= score, ['null_model', 'upper_95'], `must be below the score, ${score}`],
    [until <= 0, ['valid_until'], 'must be in the future'],
    [until > MAX_VALIDITY_MS + MAX_CLOCK_SKEW_MS, ['valid_until'], 'must be within 180 days'],
    ...adapterFaults(body, source, target),
  ]
  return faults.filter(([isFault]) => isFault).map(([, path, message]) => ({ path, message }))
}

function adapterFaults(
  { relation, adapter }: CompatibilityEvidenceRegistration,
  source: ModelSpace,
  target: ModelSpace,
): [boolean, string[], string][] {
  const { dimensions: from } = source
  const { dimensions: to } = target
  if (!adapter) {
    return [
      [relation !== 'identity', ['adapter'], 'may be null only for the relation "identity"'],
      [
        relation === 'identity' && from !== to,
        ['relation'],
        `cannot be "identity": the spaces have ${from} and ${to} dimensions`,
      ],
    ]
  }
  const { input_dimensions: input, output_dimensions: output } = adapter
  return [
    [
      takesEvidence(source.kind) && !MAPPED.includes(source.kind),
      ['adapter'],
      `must be null: nodes apply maps to ${MAPPED.join(', ')} only, not to ${source.kind}; register identical ${source.kind} spaces with the relation "identity"`,
    ],
    [relation === 'identity', ['adapter'], 'must be null for the relation "identity"'],
    [
      from !== undefined && input !== from,
      ['adapter', 'input_dimensions'],
      `must be ${from}, the dimensions of the source space`,
    ],
    [
      to !== undefined && output !== to,
      ['adapter', 'output_dimensions'],
      `must be ${to}, the dimensions of the target space`,
    ],
  ]
}
