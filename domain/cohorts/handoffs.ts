import type { Metric } from '../../schemas/cohorts/evaluator.ts'
import type { PlanReason, PlanReasonCode } from '../../schemas/cohorts/plan.ts'
import type { SpaceKind } from '../../schemas/cohorts/vocabulary.ts'
import type { GraphEdge } from './graph.ts'
import { MAPPED, takesEvidence } from './spaces/spaces.ts'
import { VALUE_FINGERPRINTS } from './values.ts'

/** A registered space of a model, newest generation first. */
export interface RegisteredSpace {
  id: string
  name: string
  role: 'produces' | 'accepts' | 'both'
  kind: SpaceKind
  fingerprint: string
  status: 'active' | 'superseded' | 'revoked'
  /** Only for media spaces. */
  content_types?: readonly string[] | null
}

/** Known evidence for a pair of spaces, by metric. */
export interface PairEvidence {
  id: string
  metric: Metric
  score: number
  status: 'active' | 'superseded' | 'revoked' | 'expired'
  /** The map that the consumer has to apply; null when the spaces count as identical. */
  adapter: object | null
}

/** How an edge connects its two sides. */
export interface Handoff {
  kind: SpaceKind
  source_space_id: string | null
  target_space_id: string | null
  source_fingerprint: string
  target_fingerprint: string
  evidence_id: string | null
  score: number | null
}

/** Returns how an edge hands over a value. Any text fits any text, and any JSON fits any JSON. */
export function valueHandoff({ to }: Pick<GraphEdge, 'to'>): Handoff {
  const kind = to.template === undefined ? 'json' : 'text'
  const fingerprint = VALUE_FINGERPRINTS[kind]
  return {
    kind,
    source_space_id: null,
    target_space_id: null,
    source_fingerprint: fingerprint,
    target_fingerprint: fingerprint,
    evidence_id: null,
    score: null,
  }
}

/** An edge that names its spaces. */
export type SpaceEdge = Pick<GraphEdge, 'edge_id' | 'min_score'> & Required<Pick<GraphEdge, 'space'>>

export interface EdgeSpaces {
  source: readonly RegisteredSpace[]
  target: readonly RegisteredSpace[]
  /** Evidence between the two spaces that the edge names. */
  evidence: readonly PairEvidence[]
  minScore: number
  /** The endpoints of both sides. Left out for a run in progress, where error messages don't name them. */
  endpoints?: { source: string; target: string } | undefined
}

/** Returns one side's named space, or the reason why the edge cannot use it. */
export function spaceOf(
  { edge_id }: Pick<GraphEdge, 'edge_id'>,
  spaces: readonly RegisteredSpace[],
  { name, side }: { name: string; side: 'source' | 'target' },
): RegisteredSpace | PlanReason {
  const named = spaces.filter((space) => space.name === name)
  const active = named.find(({ status }) => status === 'active')
  const allowed = side === 'source' ? 'produces' : 'accepts'
  if (active && active.role !== allowed && active.role !== 'both')
    return because('space_mismatch', edge_id, `the model of its ${side} only ${active.role} "${name}"`)
  if (active) return active
  return named[0]?.status === 'revoked'
    ? because('space_revoked', edge_id, `the space "${name}" of its ${side} has been revoked`)
    : because('space_missing', edge_id, `the model of its ${side} has no registered space "${name}"`)
}

/** A table model takes vectors as its columns, but only an evaluator can know which model produced them. */
function kindsDiffer(from: RegisteredSpace, to: RegisteredSpace): string {
  const kinds = `"${from.name}" of its source is ${from.kind}, and "${to.name}" of its target is ${to.kind}`
  return from.kind === 'embedding' && to.kind === 'json'
    ? `${kinds} until an evaluator registers which space its columns hold (same_as)`
    : kinds
}

/**
 * Decides whether a representation may be handed over. It may if the spaces are equal, or if valid evidence shows that
 * the consumer's answers stay the same.
 */
export function spaceHandOver(
  edge: SpaceEdge,
  { source, target, evidence, minScore, endpoints }: EdgeSpaces,
): Handoff | PlanReason {
  const { edge_id } = edge
  const from = spaceOf(edge, source, { name: edge.space.source, side: 'source' })
  if ('code' in from) return from
  const to = spaceOf(edge, target, { name: edge.space.target, side: 'target' })
  if ('code' in to) return to
  if (from.kind !== to.kind) return because('space_mismatch', edge_id, kindsDiffer(from, to))
  const both = endpoints
    ? `"${from.name}" of "${endpoints.source}" and "${to.name}" of "${endpoints.target}"`
    : `"${from.name}" and "${to.name}"`
  const handOver = {
    kind: to.kind,
    source_space_id: from.id,
    target_space_id: to.id,
    source_fingerprint: from.fingerprint,
    target_fingerprint: to.fingerprint,
    evidence_id: null,
    score: null,
  }
  if (from.kind === 'media') return mediaHandOver(edge_id, handOver, [from, to])
  if (from.fingerprint === to.fingerprint) return handOver
  if (!takesEvidence(from.kind))
    return because(
      'space_mismatch',
      edge_id,
      `${both} are different spaces of ${from.kind}${from.kind === 'tokens' ? ': their tokenizers are not the same' : ''}`,
    )
  const deciding = decidingEvidence(evidence.filter(({ adapter }) => !adapter || MAPPED.includes(to.kind)))
  if (!deciding)
    return because(
      'evidence_missing',
      edge_id,
      `${both} are different spaces, and no evidence shows that one can replace the other; ${MAPPED.includes(to.kind) ? 'start a structured run to measure it' : 'an evaluator can register evidence of their identity'}`,
    )
  if (deciding.status === 'expired' || deciding.status === 'revoked')
    return because(
      `evidence_${deciding.status}`,
      edge_id,
      `its evidence ${deciding.id} is ${deciding.status}`,
    )
  const least = edge.min_score ?? minScore
  if (deciding.score < least)
    return because(
      'evidence_below_threshold',
      edge_id,
      `its evidence scores ${deciding.score}, below the required ${least}`,
    )
  return { ...handOver, evidence_id: deciding.id, score: deciding.score }
}

/** Files may be handed over if the consumer accepts every type that the source can produce. */
function mediaHandOver(
  edge_id: string,
  handOver: Handoff,
  [from, to]: readonly [RegisteredSpace, RegisteredSpace],
): Handoff | PlanReason {
  const taken = to.content_types ?? []
  const takes = (type: string) =>
    taken.some((one) => one === type || (one.endsWith('/*') && type.startsWith(one.slice(0, -1))))
  const odd = (from.content_types ?? []).filter((type) => !takes(type))
  if (odd.length > 0)
    return because(
      'space_mismatch',
      edge_id,
      `"${from.name}" gives ${odd.join(', ')}, and "${to.name}" takes ${taken.join(', ')}`,
    )
  // Files are handed over as addresses, which look the same for all types.
  const fingerprint = VALUE_FINGERPRINTS.media
  return { ...handOver, source_fingerprint: fingerprint, target_fingerprint: fingerprint }
}

const STRONGEST_FIRST: readonly Metric[] = ['consumer_agreement', 'retrieval_overlap', 'cosine', 'r2']

/**
 * Returns the deciding evidence. Agreement between the consumer's answers outranks search results, and both outrank
 * vector similarity. A stronger metric decides even if its evidence has expired or scores poorly.
 */
function decidingEvidence(evidence: readonly PairEvidence[]): PairEvidence | undefined {
  for (const metric of STRONGEST_FIRST) {
    const found = evidence.find((one) => one.metric === metric)
    if (found) return found
  }
  return undefined
}

const because = (code: PlanReasonCode, edge_id: string, why: string): PlanReason => ({
  code,
  message: `edge "${edge_id}": ${why}`,
  edge_id,
})
