import * as edgeRateRepository from '../../../../../db/repositories/cohorts/edge-rates.ts'
import * as edgeRepository from '../../../../../db/repositories/cohorts/edges.ts'
import { agree } from '../../../../../domain/cohorts/edges/agreement.ts'
import { directiveOf } from '../../../../../domain/cohorts/edges/directive.ts'
import { EDGE_RULES } from '../../../../../domain/cohorts/edges/transitions.ts'
import { invalid } from '../../../../../domain/errors.ts'
import { sha256Hex } from '../../../../../platform/signing.ts'
import { type EdgeNegotiated, type EdgeOffer, INLINE_BYTES } from '../../../../../schemas/cohort-edge.ts'
import { type EdgeStep, failStep, standingOf, takeStep, write } from './step.ts'

/** Takes one side's offer, and agrees once there are two, or the payload of an earlier attempt. */
export async function negotiate(step: EdgeStep, offer: EdgeOffer): Promise<void> {
  if (step.edge.closed || isSettled(step)) return
  const { role } = step.call
  const { source_fingerprint, target_fingerprint } = step.edge
  const expected = role === 'producer' ? source_fingerprint : target_fingerprint
  const facts = { space: { seen: offer.space_fingerprint, expected } }
  const mismatch = EDGE_RULES.space(facts)
  if (mismatch) return failStep(step, mismatch)
  if (role === 'producer' && !(await takeStatement(step, offer))) return

  const { inline: _, ...rest } = offer
  const attempt = { [`${role}_offer`]: JSON.stringify(rest) }
  if (step.edge.state === 'planned') await takeStep(step, 'offer', { facts, attempt })
  else await write(step, { attempt })
  if (step.edge.state === 'negotiating') await agreeOn(step, facts)
  if (step.edge.state === 'negotiated' || step.edge.state === 'connecting') await deposit(step)
}

/** Offers change nothing once the payload has arrived or the attempt has ended. */
const isSettled = ({ edge: { state } }: EdgeStep) =>
  state === 'open' || state === 'transferred' || state === 'consumed' || state === 'failed'

/** Keeps what the producer says about its payload, and the payload itself if it is small enough to be sent along. */
async function takeStatement(step: EdgeStep, offer: EdgeOffer): Promise<boolean> {
  const { inline, size_bytes: size, sha256 } = offer
  const payload = inline === undefined ? undefined : Buffer.from(inline, 'base64')
  if (payload && payload.length > INLINE_BYTES) {
    throw invalid(['body', 'offer', 'inline'], `holds more than ${INLINE_BYTES} bytes`)
  }
  const stated = payload ? { bytes: payload.length, sha256: sha256Hex(payload) } : statedBy(size, sha256)
  if (!stated) return true
  const facts = {
    payload: { stated, seen: { bytes: size ?? stated.bytes, sha256: sha256 ?? stated.sha256 } },
    room: { bytes: stated.bytes, limit: step.attempt.agreed?.max_bytes ?? step.edge.max_bytes },
  }
  const failure = EDGE_RULES.size(facts) ?? EDGE_RULES.room(facts) ?? EDGE_RULES.digest(facts)
  if (failure) {
    await failStep(step, failure)
    return false
  }
  await write(step, {
    edge: {
      payload: payload ?? null,
      payload_node_id: payload ? null : step.call.nodeId,
      payload_key: null,
      size_bytes: stated.bytes,
      sha256: stated.sha256,
      shape: offer.shape ? JSON.stringify(offer.shape) : null,
      dtype: offer.dtype ?? null,
      encoding: offer.encodings[0] ?? null,
    },
  })
  return true
}

const statedBy = (bytes: number | null | undefined, sha256: string | null | undefined) =>
  typeof bytes === 'number' && typeof sha256 === 'string' ? { bytes, sha256 } : undefined

/** The offer that a payload in the row or the store makes for its producer. */
function inheritedOffer({ edge }: EdgeStep): EdgeOffer | null {
  if (edge.size_bytes === null || edge.encoding === null) return null
  const transport = edge.payload ? 'inline' : edge.payload_key ? 'relay' : undefined
  if (!transport) return null
  return {
    modes: ['transfer'],
    transports: [transport],
    // It is the producer's own word.
    encodings: [edge.encoding as EdgeOffer['encodings'][number]],
    digests: ['sha256'],
    space_fingerprint: edge.source_fingerprint,
    max_bytes: edge.max_bytes,
  }
}

async function agreeOn(step: EdgeStep, facts: { space: { seen: string; expected: string } }): Promise<void> {
  const { edge, attempt, trx } = step
  const producer = attempt.producer_offer ?? inheritedOffer(step)
  const consumer = attempt.consumer_offer
  if (!producer || !consumer) return
  const [from, to] = [attempt.producer_node_id, attempt.consumer_node_id]
  const agreement = agree(
    {
      mode: edge.mode,
      transports: edge.transports,
      maxBytes: edge.max_bytes,
      sourceFingerprint: edge.source_fingerprint,
    },
    {
      producer,
      consumer,
      isSameNode: from === to,
      isReachable: from === null || to === null || (await edgeRateRepository.isReachable(trx, { from, to })),
      isInline: edge.sha256 === null ? undefined : edge.payload !== null,
    },
  )
  if (!agreement) return
  const isAgreed = typeof agreement === 'object'
  const room = isAgreed && edge.size_bytes !== null
  await takeStep(step, 'agree', {
    facts: {
      ...facts,
      disagreement: isAgreed ? undefined : agreement,
      room: room ? { bytes: edge.size_bytes ?? 0, limit: agreement.max_bytes } : undefined,
    },
    ...(isAgreed && {
      edge: { transport: agreement.transport },
      attempt: { agreed: JSON.stringify({ ...agreement, adapter: null }) },
      data: { transport: agreement.transport, mode: agreement.mode },
    }),
  })
}

/** Hands over a payload that the gateway has verified itself, or that is a file of the consumer's own node. */
async function deposit(step: EdgeStep): Promise<void> {
  const { edge, attempt } = step
  if (edge.size_bytes === null || edge.sha256 === null || !attempt.agreed) return
  const transport = edge.payload ? 'inline' : edge.transport
  if (transport !== 'inline' && transport !== 'local') return
  const statement = { bytes: edge.size_bytes, sha256: edge.sha256 }
  await takeStep(step, 'deposit', {
    facts: { payload: { stated: statement, seen: statement } },
    edge: { transport },
    attempt: {
      bytes: statement.bytes,
      agreed: JSON.stringify({ ...attempt.agreed, transport, mode: 'transfer' }),
    },
    data: { transport, bytes: statement.bytes },
  })
}

/** Returns what a node learns from its negotiation. */
export async function negotiated(step: EdgeStep): Promise<EdgeNegotiated> {
  const { edge, attempt, call, trx } = step
  const directive = directiveOf(standingOf(step), call.role)
  const peer = call.role === 'producer' ? attempt.consumer_node_id : attempt.producer_node_id
  const hasArrived = edge.state === 'transferred' || edge.state === 'consumed'
  const isInline = call.role === 'consumer' && hasArrived && edge.transport === 'inline'
  return {
    ...directive,
    agreed: directive.proceed ? attempt.agreed : null,
    size_bytes: edge.size_bytes,
    sha256: edge.sha256,
    shape: edge.shape,
    inline: isInline ? (edge.payload?.toString('base64') ?? null) : null,
    peer: await edgeRepository.findPeer(trx, peer),
  }
}
