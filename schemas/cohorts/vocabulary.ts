import type { Static } from 'typebox'
import { Vocabulary } from '../common.ts'

/** The kinds of data that an edge carries: values (`text`, `json`, `media`) or representations (the other kinds). */
export const SpaceKind = Vocabulary(
  'text',
  'json',
  'media',
  'tokens',
  'embedding',
  'hidden_state',
  'kv_cache',
)
export type SpaceKind = Static<typeof SpaceKind>

/** How a payload travels: by renaming a file, in the row, from node to node, or through the object store. */
export const Transport = Vocabulary('local', 'inline', 'direct', 'relay', 'engine')
export type Transport = Static<typeof Transport>

/** One payload, or a stream of frames. */
export const EdgeMode = Vocabulary('transfer', 'session')
export type EdgeMode = Static<typeof EdgeMode>

export const CohortState = Vocabulary('queued', 'preparing', 'running', 'succeeded', 'failed', 'cancelled')
export type CohortState = Static<typeof CohortState>

export const StageState = Vocabulary(
  'pending',
  'called',
  'loading',
  'waiting',
  'running',
  'succeeded',
  'failed',
  'skipped',
  'cancelled',
)
export type StageState = Static<typeof StageState>

export const EdgeState = Vocabulary(
  'planned',
  'negotiating',
  'negotiated',
  'connecting',
  'open',
  'transferred',
  'consumed',
  'failed',
)
export type EdgeState = Static<typeof EdgeState>

/** Why an attempt at an edge ended without its payload. */
export const EdgeFailure = Vocabulary(
  'expired',
  'unreachable',
  'stalled',
  'digest_mismatch',
  'size_mismatch',
  'space_mismatch',
  'shape_mismatch',
  'refused',
  'evidence_revoked',
  'space_revoked',
  'producer_lost',
  'consumer_lost',
  'payload_gone',
  'no_room',
  'cancelled',
)
export type EdgeFailure = Static<typeof EdgeFailure>

/** The element types of a payload. */
export const Dtype = Vocabulary('f32', 'f16', 'bf16', 'i8', 'u8', 'i32', 'i64')
export type Dtype = Static<typeof Dtype>

export const CohortEventType = Vocabulary(
  'cohort.queued',
  'cohort.started',
  'cohort.replanned',
  'cohort.resumed',
  'cohort.cancel_requested',
  'cohort.succeeded',
  'cohort.failed',
  'cohort.cancelled',
  'stage.called',
  'stage.loading',
  'stage.started',
  'stage.retried',
  'stage.fell_back',
  'stage.succeeded',
  'stage.failed',
  'stage.skipped',
  'stage.cancelled',
  'edge.negotiated',
  'edge.connecting',
  'edge.opened',
  'edge.progress',
  'edge.transferred',
  'edge.consumed',
  'edge.failed',
  'edge.retried',
  'edge.relayed',
  'evidence.revoked',
)
export type CohortEventType = Static<typeof CohortEventType>
