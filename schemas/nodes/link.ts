import Type, { type Static } from 'typebox'
import { Nullable } from '../common.ts'
import type { NodeLogEntry, NodeLogSource } from './node-logs.ts'
import { NodeInventory, NodeModel, NodeReport, NodeSharing } from './node.ts'

/**
 * Frame types of the link between a node and a gateway. A WebSocket message is one or more frames, each `[u8 type][u32
 * stream][u16 length of meta][u32 length of body][meta: JSON][body: bytes]`, big endian. Stream 0 is the link itself;
 * the gateway numbers the others.
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
 * The link version that this side speaks. Each side sends its own, in the handshake's `LINK_HEADER` and in `hello`; a
 * side that sends none speaks version 1. Receivers ignore unknown frame types and unknown JSON members.
 */
export const LINK_VERSION = 2
export const LINK_HEADER = 'x-hearth-link'
/** The features of this version that the `needs` of a stream may name. */
export const KNOWN_NEEDS: ReadonlySet<string> = new Set(['files', 'evict', 'lines'])

/** Features that the receiver of a stream must support. A receiver that doesn't support one ends only that stream. */
const Needs = Type.Optional(Type.Array(Type.String()))

/** The largest body of one data frame. Also the largest response sent in a single `end` frame. */
export const MAX_CHUNK = 64 * 1024

/** How many bytes a sender may have in flight on one stream before the receiver grants more. */
export const STREAM_CREDIT = 4 * MAX_CHUNK

/**
 * Sent by a node once after it connects. A gateway sends it when one of these changes: whether the node is draining,
 * which accounts it serves, the list of gateways, the pinned or retiring models, or the idle timeouts.
 */
export const HelloMeta = Type.Object({
  link_version: Type.Optional(Type.Integer({ minimum: 1 })),
  inventory: Type.Optional(NodeInventory),
  gateways: Type.Optional(Type.Array(Type.String())),
  draining: Type.Optional(Type.Boolean()),
  sharing: Type.Optional(NodeSharing),
  /** Keys of all models that the platform pins on this node. */
  pinned: Type.Optional(Type.Array(Type.String())),
  /** Keys of all models that the node unloads once no request uses them. Nodes that ignore it unload them when idle. */
  retiring: Type.Optional(Type.Array(Type.String())),
  /**
   * The idle time in seconds, by model, after which the node unloads it, overriding the node's own setting; 0 means
   * never.
   */
  idle_timeouts: Type.Optional(Type.Record(Type.String(), Type.Integer({ minimum: 0 }))),
  /**
   * Keys of models that the platform has deleted and the node has reported: the node frees their files. Nodes that
   * ignore it keep the files until their disk quota removes them.
   */
  forget: Type.Optional(Type.Array(Type.String())),
})
export type HelloMeta = Static<typeof HelloMeta>

/**
 * Sent by a node as the body of a frame. `report` is the full state, `model` a single change; a `progress` frame
 * carries `model` during a download or load.
 */
export const StateBody = Type.Object({
  report: Type.Optional(NodeReport),
  model: Type.Optional(NodeModel),
})
export type StateBody = Static<typeof StateBody>

/** An input field that names a file. The node fetches it because model servers have no network access. */
export const InputFile = Type.Object({
  field: Type.String(),
  /** The URL of a file that was uploaded to the platform; other files are at the public address in the field. */
  url: Type.Optional(Type.String()),
})
export type InputFile = Static<typeof InputFile>

/** Sent by a gateway. The body is in this frame; with `more`, it continues in data frames. */
export const RequestMeta = Type.Object({
  model_key: Type.String(),
  path: Type.String(),
  method: Type.Optional(Type.String()),
  content_type: Type.Optional(Type.String()),
  more: Type.Optional(Type.Boolean()),
  /** Identifies the caller of requests to tools or with files, so that a node can alternate between callers. */
  turn: Type.Optional(Type.String()),
  /** The node replaces these fields with `data:` URLs before it calls the model server; needs `files`. */
  files: Type.Optional(Type.Array(InputFile)),
  /**
   * With `evict` the node unloads the model instead of calling it; 409 with a reason if it is in use. With `lines` the
   * node returns its logs: the body is a `LogsRequest`, and the response is a `LogsResponse` in one frame.
   */
  needs: Needs,
})
export type RequestMeta = Static<typeof RequestMeta>

/** The body of a request for a node's own logs. */
export interface LogsRequest {
  source: NodeLogSource
  limit: number
}

/** The newest log lines, oldest first, as many as fit into a frame. */
export interface LogsResponse {
  lines: NodeLogEntry[]
}

/** `head` opens a streamed response. A short response is one `end` frame with the same meta. */
export const HeadMeta = Type.Object({
  status: Type.Integer(),
  content_type: Type.Optional(Type.String()),
  /** The tokens in the `usage` of a short chat response; unset unless the response is a JSON object with one. */
  tokens: Type.Optional(Type.Integer({ minimum: 0 })),
  /** How many of `tokens` the model generated. */
  tokens_out: Type.Optional(Type.Integer({ minimum: 0 })),
  needs: Needs,
})
export type HeadMeta = Static<typeof HeadMeta>

export const ErrorMeta = Type.Object({
  code: Type.String(),
  message: Type.String(),
})
export type ErrorMeta = Static<typeof ErrorMeta>

/** On a stream, cancels the request. On stream 0, cancels this job or task wherever it is running on the node. */
export const CancelMeta = Type.Object({
  job_id: Type.Optional(Type.String()),
  task_id: Type.Optional(Type.String()),
  /**
   * Cancels only this attempt at the task, or an earlier one, because a node may have restarted a stage. Nodes that
   * ignore it cancel their current attempt.
   */
  attempt: Type.Optional(Type.Integer({ minimum: 1 })),
  /**
   * The node stops the job after a checkpoint. A node that ignores it finds out when it renews the lease or stores a
   * checkpoint.
   */
  paused_job_id: Type.Optional(Type.String()),
  /**
   * No node will request the payload of this attempt, or of an earlier one, again. Nodes that ignore it find out when
   * they poll.
   */
  edge: Type.Optional(Type.Object({ edge_id: Type.String(), attempt: Type.Integer({ minimum: 1 }) })),
})
export type CancelMeta = Static<typeof CancelMeta>

/** On a stream, grants credit in bytes. On stream 0, acknowledges that all spooled entries up to `upto` are stored. */
export const AckMeta = Type.Object({
  credit: Type.Optional(Type.Integer({ minimum: 1 })),
  upto: Type.Optional(Type.Integer({ minimum: 0 })),
})
export type AckMeta = Static<typeof AckMeta>

/** The meta of `log` and `metric` frames: the position of the last entry. The body is a JSON array of entries. */
export const SpoolMeta = Type.Object({ upto: Type.Integer({ minimum: 0 }) })
export type SpoolMeta = Static<typeof SpoolMeta>

const JobAttempt = { job_id: Type.String(), attempt: Type.Integer({ minimum: 0 }) }

export const LogEntry = Type.Object({
  ...JobAttempt,
  /** The node numbers the lines of an attempt, so that a batch that arrives twice is stored once. */
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
