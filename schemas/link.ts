import Type, { type Static } from 'typebox'
import { Nullable } from './common.ts'
import { NodeInventory, NodeModel, NodeReport, NodeSharing } from './node.ts'

/**
 * Frame types of the link between a node and a gateway. A message of the WebSocket is one or more frames, each
 * `[u8 type][u32 stream][u16 length of meta][u32 length of body][meta: JSON][body: bytes]`, big endian.
 * Stream 0 is the link itself; the gateway numbers the others.
 */
export const FRAME = {
  hello: 1,
  state: 2,
  request: 3,
  head: 4,
  chunk: 5,
  end: 6,
  error: 7,
  cancel: 8,
  progress: 9,
  log: 10,
  metric: 11,
  ack: 12,
  ping: 13,
} as const
export type FrameType = (typeof FRAME)[keyof typeof FRAME]

/**
 * The version of the link that this side speaks. Both tell theirs, in `LINK_HEADER` of the handshake and in `hello`; a side that
 * tells none speaks 1. Frames of unknown types are passed over, and so are unknown members of JSON.
 */
export const LINK_VERSION = 2
export const LINK_HEADER = 'x-hearth-link'
/** What the `needs` of a stream may name for this version. */
export const KNOWN_NEEDS: ReadonlySet<string> = new Set()

/** What a receiver has to understand of a stream to take it at all; one that does not ends that stream, and only that. */
const Needs = Type.Optional(Type.Array(Type.String()))

/** Largest body of one data frame; also the largest answer that travels in a single `end` frame. */
export const MAX_CHUNK = 64 * 1024

/** Bytes a sender may have under way on one stream before the receiver grants more. */
export const STREAM_CREDIT = 4 * MAX_CHUNK

/**
 * Node to gateway, once after connecting. Gateway to node: whether the node is to drain, whose work it is given, which models
 * it keeps loaded, and the current list of gateways, each again whenever it changes.
 */
export const HelloMeta = Type.Object({
  link_version: Type.Optional(Type.Integer({ minimum: 1 })),
  inventory: Type.Optional(NodeInventory),
  gateways: Type.Optional(Type.Array(Type.String())),
  draining: Type.Optional(Type.Boolean()),
  sharing: Type.Optional(NodeSharing),
  /** Keys of all models that the platform wants kept loaded on this node. */
  pinned: Type.Optional(Type.Array(Type.String())),
})
export type HelloMeta = Static<typeof HelloMeta>

/**
 * Node to gateway, as the body of a frame. `report` is the whole picture, `model` one change at once; a `progress` frame
 * carries the same for a model on its way.
 */
export const StateBody = Type.Object({
  report: Type.Optional(NodeReport),
  model: Type.Optional(NodeModel),
})
export type StateBody = Static<typeof StateBody>

/** Gateway to node. The body follows in this frame, and in chunks when `more` says so. */
export const RequestMeta = Type.Object({
  model_key: Type.String(),
  path: Type.String(),
  method: Type.Optional(Type.String()),
  content_type: Type.Optional(Type.String()),
  more: Type.Optional(Type.Boolean()),
  needs: Needs,
})
export type RequestMeta = Static<typeof RequestMeta>

/** `head` opens a streamed answer; a whole short answer is one `end` frame with the same meta. */
export const HeadMeta = Type.Object({
  status: Type.Integer(),
  content_type: Type.Optional(Type.String()),
  /** What a short answer to a chat counts in its `usage`; unset where it is no JSON object that has one. */
  tokens: Type.Optional(Type.Integer({ minimum: 0 })),
  needs: Needs,
})
export type HeadMeta = Static<typeof HeadMeta>

export const ErrorMeta = Type.Object({
  code: Type.String(),
  message: Type.String(),
})
export type ErrorMeta = Static<typeof ErrorMeta>

/** On a stream: stop it. On stream 0: stop that job or task, wherever it is on this node. */
export const CancelMeta = Type.Object({
  job_id: Type.Optional(Type.String()),
  task_id: Type.Optional(Type.String()),
})
export type CancelMeta = Static<typeof CancelMeta>

/** On a stream: credit in bytes. On stream 0: everything spooled up to `upto` is stored. */
export const AckMeta = Type.Object({
  credit: Type.Optional(Type.Integer({ minimum: 1 })),
  upto: Type.Optional(Type.Integer({ minimum: 0 })),
})
export type AckMeta = Static<typeof AckMeta>

/** `log` and `metric` frames carry the position of their last entry; the body is a JSON array of entries. */
export const SpoolMeta = Type.Object({ upto: Type.Integer({ minimum: 0 }) })
export type SpoolMeta = Static<typeof SpoolMeta>

const JobAttempt = { job_id: Type.String(), attempt: Type.Integer({ minimum: 0 }) }

export const LogEntry = Type.Object({
  ...JobAttempt,
  /** Counted by the node within the attempt, so that a batch sent twice is stored once. */
  seq: Type.Integer({ minimum: 0 }),
  message: Type.String(),
  at: Type.String(),
})
export type LogEntry = Static<typeof LogEntry>

export const MetricEntry = Type.Object({
  ...JobAttempt,
  epoch: Type.Integer({ minimum: 0 }),
  train_loss: Nullable(Type.Number()),
  val_loss: Nullable(Type.Number()),
  eval_loss: Type.Optional(Nullable(Type.Number())),
  eval_perplexity: Type.Optional(Nullable(Type.Number())),
  at: Type.String(),
})
export type MetricEntry = Static<typeof MetricEntry>
