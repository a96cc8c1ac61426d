import Type, { type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, Vocabulary } from '../common.ts'
import { Formed, Sha256 } from '../forms.ts'
import { Dtype, EdgeFailure, EdgeMode, EdgeState, Transport } from './vocabulary.ts'

/** The maximum time that a request waits for its edge to change. */
const MAX_WAIT_MS = 10_000
/** The largest payload stored in a row, before base64. */
export const INLINE_BYTES = 64 * 1024
/** The largest payload of an edge. */
const PAYLOAD_BYTES = 16 * 1024 ** 3

const Attempt = Type.Integer({ minimum: 1, maximum: 1_000_000 })
const Bytes = Type.Integer({ minimum: 0, maximum: 2 ** 50 })
const Shape = Type.Array(Type.Integer({ minimum: 0, maximum: 2 ** 40 }), { maxItems: 8 })
const Message = Type.String({ maxLength: 500 })
const Milliseconds = Type.Number({ minimum: 0, maximum: 1e9 })

export const EdgeRole = Vocabulary('producer', 'consumer')
export type EdgeRole = Static<typeof EdgeRole>

/** The encodings of a payload's bytes. */
const Encoding = Vocabulary('safetensors', 'raw', 'json', 'llama-state', 'vllm-kv')
export type Encoding = Static<typeof Encoding>

const Digest = Vocabulary('sha256')

const Base64 = Formed(
  '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$',
  'must be padded base64',
  { maxLength: 4 * Math.ceil(INLINE_BYTES / 3) },
)

const Candidate = Type.Object(
  {
    url: Formed('^https://[^/?#@\\s]{1,300}$', 'must be https://host:port', { maxLength: 310 }),
    scope: Vocabulary('loopback', 'private', 'public'),
  },
  { additionalProperties: false },
)
export type Candidate = Static<typeof Candidate>

/** Every call names the attempt that its node works on and the lease of its stage. */
const Call = { attempt: Attempt, lease_token: Uuid }

export const EdgeParams = Type.Object({ cohort_id: Uuid, edge_id: Uuid })
export type EdgeParams = Static<typeof EdgeParams>

export const EdgeOffer = Type.Object(
  {
    modes: Type.Array(EdgeMode, { minItems: 1, maxItems: 2 }),
    transports: Type.Array(Transport, { minItems: 1, maxItems: 5 }),
    encodings: Type.Array(Encoding, { minItems: 1, maxItems: 5 }),
    digests: Type.Array(Digest, { minItems: 1, maxItems: 1 }),
    space_fingerprint: Sha256,
    max_bytes: Type.Integer({ minimum: 0, maximum: PAYLOAD_BYTES }),
    window_bytes: Type.Optional(Type.Integer({ minimum: 65_536, maximum: 2 ** 30, default: 4_194_304 })),
    /** The producer sends the following members once it has its payload. */
    size_bytes: Type.Optional(Nullable(Bytes)),
    sha256: Type.Optional(Nullable(Sha256)),
    shape: Type.Optional(Nullable(Shape)),
    dtype: Type.Optional(Nullable(Dtype)),
    inline: Type.Optional(Base64),
  },
  { additionalProperties: false },
)
export type EdgeOffer = Static<typeof EdgeOffer>

export const EdgeNegotiateRequest = Type.Object(
  {
    ...Call,
    role: EdgeRole,
    wait_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_WAIT_MS, default: 0 })),
    offer: EdgeOffer,
  },
  { $id: 'EdgeNegotiateRequest', additionalProperties: false },
)
export type EdgeNegotiateRequest = Static<typeof EdgeNegotiateRequest>

export const EdgeConsumeRequest = Type.Object(
  {
    ...Call,
    outcome: Vocabulary('consumed', 'refused'),
    bytes: Bytes,
    sha256: Sha256,
    space_fingerprint: Sha256,
    shape: Type.Optional(Shape),
    adapter_sha256: Type.Optional(Nullable(Sha256)),
    failure: Type.Optional(EdgeFailure),
    message: Type.Optional(Message),
  },
  { $id: 'EdgeConsumeRequest', additionalProperties: false },
)
export type EdgeConsumeRequest = Static<typeof EdgeConsumeRequest>

/** Members of every response: the state of the edge, and the next step of the calling node. */
const DIRECTIVE = {
  state: EdgeState,
  attempt: Attempt,
  /** Both sides agree, and the attempt has neither failed nor been closed, so the node takes its next step. */
  proceed: Type.Boolean(),
  /** The node drops everything it holds for this edge. */
  release: Type.Boolean(),
  /** The node has nothing to do for now and calls again after this time. */
  retry_after_ms: Type.Optional(Milliseconds),
  /** The producer holds its payload at least until then. */
  hold_until: Type.Optional(Timestamp),
  /** The attempt fails unless its state has changed by then. */
  deadline: Timestamp,
  /** Only in the state `failed`. */
  failure: Type.Optional(EdgeFailure),
}

export const Directive = Type.Object(DIRECTIVE)
export type Directive = Static<typeof Directive>

const Agreement = Type.Object({
  transport: Transport,
  mode: EdgeMode,
  encoding: Encoding,
  digest: Digest,
  /** The space of the transferred bytes. */
  space_fingerprint: Sha256,
  /** The map into the consumer's space, which the consumer applies. */
  adapter: Nullable(
    Type.Object({ evidence_id: Uuid, url: Type.String(), sha256: Sha256, size_bytes: Bytes }),
  ),
  max_bytes: Bytes,
  window_bytes: Bytes,
})
export type Agreement = Static<typeof Agreement>

export const EdgeNegotiated = Type.Object(
  {
    ...DIRECTIVE,
    agreed: Nullable(Agreement),
    size_bytes: Nullable(Bytes),
    sha256: Nullable(Sha256),
    shape: Nullable(Shape),
    /** The payload, if the consumer receives it inline. */
    inline: Nullable(Type.String()),
    peer: Nullable(Type.Object({ node_id: Uuid, public_key: Type.String() })),
  },
  { $id: 'EdgeNegotiated' },
)
export type EdgeNegotiated = Static<typeof EdgeNegotiated>

export const EdgeConsumed = Type.Object(
  {
    ...DIRECTIVE,
    consumed_at: Nullable(Timestamp),
    /**
     * True once the stage's quorum of incoming edges is consumed or, without a quorum, all of them are consumed or
     * closed.
     */
    stage_may_run: Type.Boolean(),
  },
  { $id: 'EdgeConsumed' },
)
export type EdgeConsumed = Static<typeof EdgeConsumed>

const Probe = Type.Object(
  {
    url: Type.String({ maxLength: 310 }),
    ok: Type.Boolean(),
    rtt_ms: Type.Optional(Milliseconds),
    error: Type.Optional(Type.String({ maxLength: 200 })),
  },
  { additionalProperties: false },
)

export const EdgeRendezvousRequest = Type.Object(
  {
    ...Call,
    role: EdgeRole,
    /** Sent by the producer: where it listens, and the digest of the public key it presents there. */
    candidates: Type.Optional(Type.Array(Candidate, { maxItems: 8 })),
    spki_sha256: Type.Optional(Sha256),
    /** Sent by the consumer: the keys of producers on its own machine, whose loopback addresses it can reach. */
    local_keys: Type.Optional(Type.Array(Sha256, { maxItems: 64 })),
    /** Sent by the consumer: what it tried, and the candidate it uses; null when it could reach none. */
    probes: Type.Optional(Type.Array(Probe, { maxItems: 8 })),
    selected: Type.Optional(Nullable(Type.String({ maxLength: 310 }))),
  },
  { $id: 'EdgeRendezvousRequest', additionalProperties: false },
)
export type EdgeRendezvousRequest = Static<typeof EdgeRendezvousRequest>

export const EdgeRendezvous = Type.Object(
  {
    ...DIRECTIVE,
    candidates: Type.Optional(Type.Array(Candidate)),
    spki_sha256: Type.Optional(Sha256),
    /** For the consumer, which presents it to the producer. */
    ticket: Type.Optional(Type.String()),
    /** For the producer. */
    ticket_sha256: Type.Optional(Sha256),
    ticket_expires_at: Type.Optional(Timestamp),
    /** For the producer, the URL to PUT to; for the consumer, the URL to GET from once the payload is stored. */
    relay: Type.Optional(
      Nullable(
        Type.Object({
          put_url: Type.Optional(Type.String()),
          get_url: Type.Optional(Type.String()),
          content_type: Type.String(),
          /** The headers to send with the PUT. */
          headers: Type.Optional(Type.Record(Type.String(), Type.String())),
          expires_at: Timestamp,
        }),
      ),
    ),
    transport: Nullable(Transport),
  },
  { $id: 'EdgeRendezvous' },
)
export type EdgeRendezvous = Static<typeof EdgeRendezvous>

/** A step of a transfer or session. */
export const EdgeAttemptRequest = Type.Object(
  {
    ...Call,
    role: EdgeRole,
    phase: Vocabulary('begin', 'progress', 'end', 'fail'),
    transport: Transport,
    bytes: Type.Optional(Bytes),
    sha256: Type.Optional(Sha256),
    sequence: Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 50 })),
    /** The last frame of a session that the consumer has acknowledged. */
    acknowledged: Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 50 })),
    elapsed_ms: Type.Optional(Milliseconds),
    failure: Type.Optional(EdgeFailure),
    message: Type.Optional(Message),
  },
  { $id: 'EdgeAttemptRequest', additionalProperties: false },
)
export type EdgeAttemptRequest = Static<typeof EdgeAttemptRequest>

export const EdgeAttempted = Type.Object(
  {
    ...DIRECTIVE,
    session_id: Type.Optional(Uuid),
    /** The frame at which a session resumes. */
    from_sequence: Type.Optional(Type.Integer({ minimum: 1 })),
  },
  { $id: 'EdgeAttempted' },
)
export type EdgeAttempted = Static<typeof EdgeAttempted>
