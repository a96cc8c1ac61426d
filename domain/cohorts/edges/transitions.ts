import type { EdgeFailure, EdgeState } from '../../../schemas/cohorts/vocabulary.ts'

/** The steps that an edge can take. */
export type EdgeMove =
  | 'offer'
  | 'agree'
  | 'deposit'
  | 'connect'
  | 'open'
  | 'progress'
  | 'deliver'
  | 'consume'
  | 'fail'
  | 'lose'
  | 'retry'

/** An edge is moved by a node that holds the lease of its stage, or by the platform. */
export type EdgeMover = 'producer' | 'consumer' | 'platform'

/** A size and digest, either as stated by the producer or as observed. */
export interface PayloadDigest {
  bytes: number
  sha256: string
}

/** The facts that the rules check. Each rule reads only the facts it needs, and passes if they are absent. */
export interface EdgeFacts {
  /** The space that a node names, and the one that this edge expects. */
  space?: { seen: string; expected: string }
  /** Why the two offers are incompatible. */
  disagreement?: EdgeFailure | undefined
  /** The size in the producer's statement, and this edge's limit. */
  room?: { bytes: number; limit: number } | undefined
  /** The state of the evidence that allows the edge; null when the spaces are equal. */
  evidence?: 'active' | 'expired' | 'revoked' | null
  /** True once a space at either end is revoked. */
  isSpaceRevoked?: boolean
  /** The bytes that the producer stated, and those that arrived. */
  payload?: { stated: PayloadDigest | null; seen: PayloadDigest }
  shape?: { stated: readonly number[] | null; seen: readonly number[] | null }
  /** The digest of the map that the consumer applied, and of the one it was given. */
  adapter?: { seen: string | null; expected: string | null }
  /** False once the ticket has expired. */
  isTicketValid?: boolean
  /** False once the time for which the producer must hold its payload is over. */
  isHeld?: boolean
}

type Rule = (facts: EdgeFacts) => EdgeFailure | undefined

const failing = (isBroken: boolean | undefined, failure: EdgeFailure) => (isBroken ? failure : undefined)

/** The rules by name. Each returns its failure, or nothing if it passes. */
export const EDGE_RULES = {
  space: ({ space }) => failing(space && space.seen !== space.expected, 'space_mismatch'),
  offers: ({ disagreement }) => disagreement,
  room: ({ room }) => failing(room && room.bytes > room.limit, 'size_mismatch'),
  withdrawn: ({ isSpaceRevoked }) => failing(isSpaceRevoked, 'space_revoked'),
  revoked: ({ evidence }) => failing(evidence === 'revoked', 'evidence_revoked'),
  /** Checked only when both sides agree: an attempt agreed on while its evidence was valid may finish. */
  expired: ({ evidence }) => failing(evidence === 'expired', 'expired'),
  size: ({ payload }) => failing(payload && payload.seen.bytes !== payload.stated?.bytes, 'size_mismatch'),
  digest: ({ payload }) =>
    failing(payload && payload.seen.sha256 !== payload.stated?.sha256, 'digest_mismatch'),
  shape: ({ shape }) =>
    failing(
      shape?.seen != null && shape.stated !== null && shape.seen.join() !== shape.stated.join(),
      'shape_mismatch',
    ),
  adapter: ({ adapter }) => failing(adapter && adapter.seen !== adapter.expected, 'space_mismatch'),
  ticket: ({ isTicketValid }) => failing(isTicketValid === false, 'expired'),
  held: ({ isHeld }) => failing(isHeld === false, 'payload_gone'),
} as const satisfies Record<string, Rule>

export interface EdgeTransition {
  from: readonly EdgeState[]
  to: EdgeState
  by: readonly EdgeMover[]
  rules: readonly (keyof typeof EDGE_RULES)[]
}

const NODES = ['producer', 'consumer'] as const
const UNFINISHED = ['planned', 'negotiating', 'negotiated', 'connecting', 'open', 'transferred'] as const

/**
 * The transitions of one attempt at an edge. Nodes move it under the lease of their stage; a broken rule ends the
 * attempt with its failure. `test/domain/cohorts/edge.test.ts` searches every interleaving of them.
 */
export const EDGE_TRANSITIONS: Readonly<Record<EdgeMove, EdgeTransition>> = {
  /** The first side's offer. */
  offer: { from: ['planned'], to: 'negotiating', by: NODES, rules: ['space'] },
  /** The second side's offer, or the first side's if an earlier attempt left the payload behind. */
  agree: {
    from: ['negotiating'],
    to: 'negotiated',
    by: NODES,
    rules: ['offers', 'room', 'withdrawn', 'revoked', 'expired'],
  },
  /** The payload has reached the consumer without a connection: in the row, or as a local file on its node. */
  deposit: { from: ['negotiated', 'connecting'], to: 'transferred', by: NODES, rules: ['size', 'digest'] },
  connect: { from: ['negotiated'], to: 'connecting', by: NODES, rules: ['withdrawn', 'revoked'] },
  open: { from: ['negotiated', 'connecting'], to: 'open', by: ['consumer'], rules: ['ticket', 'held'] },
  progress: { from: ['open'], to: 'open', by: NODES, rules: [] },
  deliver: { from: ['open'], to: 'transferred', by: ['consumer'], rules: ['size', 'digest'] },
  consume: {
    from: ['transferred'],
    to: 'consumed',
    by: ['consumer'],
    rules: ['size', 'digest', 'space', 'shape', 'adapter', 'withdrawn', 'revoked'],
  },
  /** Reported by a node or detected by the platform. */
  fail: { from: UNFINISHED, to: 'failed', by: [...NODES, 'platform'], rules: [] },
  /** The consumer was lost, or its evidence was revoked, before its stage ended. */
  lose: { from: ['consumed'], to: 'failed', by: ['platform'], rules: [] },
  /** The next attempt. */
  retry: { from: ['failed'], to: 'planned', by: ['platform'], rules: [] },
}

/** The outcome of a step: the next state, the failure that ends the attempt, or a refusal of an invalid step. */
export type EdgeOutcome = { to: EdgeState } | { failure: EdgeFailure } | { refused: true }

/** Decides one step of an edge. */
export function moveEdge(
  { state, move, by }: { state: EdgeState; move: EdgeMove; by: EdgeMover },
  facts: EdgeFacts = {},
  rules: Readonly<Record<string, Rule>> = EDGE_RULES,
): EdgeOutcome {
  const transition = EDGE_TRANSITIONS[move]
  if (!transition.by.includes(by) || !transition.from.includes(state)) return { refused: true }
  for (const name of transition.rules) {
    const failure = rules[name]?.(facts)
    if (failure) return { failure }
  }
  return { to: transition.to }
}
