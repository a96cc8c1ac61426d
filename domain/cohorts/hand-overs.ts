import type { Metric } from '../../schemas/cohort-evaluator.ts'
import type { PlanReason, PlanReasonCode } from '../../schemas/cohort-plan.ts'
import type { SpaceKind } from '../../schemas/cohort-vocabulary.ts'
import type { GraphEdge } from './graph.ts'
import { MAPPED, takesEvidence } from './spaces.ts'
import { VALUE_FINGERPRINTS } from './values.ts'

/** A space of a model, newest generation first. */
export interface KnownSpace {
  id: string
  name: string
  role: 'produces' | 'accepts' | 'both'
  kind: SpaceKind
  fingerprint: string
  status: 'active' | 'superseded' | 'revoked'
  /** Of media. */
  content_types?: readonly string[] | null
}

/** What is known of a pair of spaces, by metric. */
export interface KnownEvidence {
  id: string
  metric: Metric
  score: number
  status: 'active' | 'superseded' | 'revoked' | 'expired'
  /** The map that the consumer has to apply; null where the spaces are taken as the same. */
  adapter: object | null
}

/** How an edge connects its two sides. */
export interface HandOver {
  kind: SpaceKind
  source_space_id: string | null
  target_space_id: string | null
  source_fingerprint: string
  target_fingerprint: string
  evidence_id: string | null
  score: number | null
}

/** Returns how a value is handed over: every text fits every text, and so do JSON values. */
export function valueHandOver({ to }: Pick<GraphEdge, 'to'>): HandOver {
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

export interface Sides {
  source: readonly KnownSpace[]
  target: readonly KnownSpace[]
  /** Evidence between the two spaces that the edge names. */
  evidence: readonly KnownEvidence[]
  minScore: number
  /** The endpoints of both sides; nobody reads of them in a run that goes on. */
  endpoints?: { source: string; target: string } | undefined
}

/** Returns the space of a side by its name, or the reason why the edge cannot use it. */
export function spaceOf(
  { edge_id }: Pick<GraphEdge, 'edge_id'>,
  spaces: readonly KnownSpace[],
  { name, side }: { name: string; side: 'source' | 'target' },
): KnownSpace | PlanReason {
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

/** A model of a table takes vectors as its columns, which only an evaluator can know. */
function kindsDiffer(from: KnownSpace, to: KnownSpace): string {
  const kinds = `"${from.name}" of its source is ${from.kind}, and "${to.name}" of its target is ${to.kind}`
  return from.kind === 'embedding' && to.kind === 'json'
    ? `${kinds} until an evaluator says whose vectors its columns are (same_as)`
    : kinds
}

/**
 * Decides whether a representation may be handed over: between equal spaces, or on live evidence that the consumer
 * answers the same as with its own.
 */
export function spaceHandOver(
  edge: Pick<GraphEdge, 'edge_id' | 'space' | 'min_score'>,
  { source, target, evidence, minScore, endpoints }: Sides,
): HandOver | PlanReason {
  const { edge_id } = edge
  const from = spaceOf(edge, source, { name: edge.space!.source, side: 'source' })
  if ('code' in from) return from
  const to = spaceOf(edge, target, { name: edge.space!.target, side: 'target' })
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
      `${both} are different spaces, and nothing shows that one may stand for the other; ${MAPPED.includes(to.kind) ? 'let a structured run measure it' : 'an evaluator may register evidence of their identity'}`,
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
      `its evidence scores ${deciding.score}, and ${least} is asked for`,
    )
  return { ...handOver, evidence_id: deciding.id, score: deciding.score }
}

/** Files may be handed over where the consumer takes each type that they can have. */
function mediaHandOver(
  edge_id: string,
  handOver: HandOver,
  [from, to]: readonly [KnownSpace, KnownSpace],
): HandOver | PlanReason {
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
  // They go as addresses, which are alike whatever the files are.
  const fingerprint = VALUE_FINGERPRINTS.media
  return { ...handOver, source_fingerprint: fingerprint, target_fingerprint: fingerprint }
}

const STRONGEST_FIRST: readonly Metric[] = ['consumer_agreement', 'retrieval_overlap', 'cosine', 'r2']

/**
 * Returns the evidence that decides: what the consumer answers says more than what a search finds, and both say more than
 * how near the vectors are. A stronger metric decides also where its evidence has ended or is poor.
 */
function decidingEvidence(evidence: readonly KnownEvidence[]): KnownEvidence | undefined {
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
