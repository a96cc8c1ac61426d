import * as edgeRateRepository from '../../../../../db/repositories/cohorts/edge-rates.ts'
import {
  isReplaced,
  mayReplace,
  replacePayload,
} from '../../../../../db/repositories/cohorts/edge-retries.ts'
import * as edgeRepository from '../../../../../db/repositories/cohorts/edges.ts'
import type { EdgeChange } from '../../../../../db/repositories/cohorts/edges.ts'
import { agree } from '../../../../../domain/cohorts/edges/agreement.ts'
import { directiveOf } from '../../../../../domain/cohorts/edges/directive.ts'
import { EDGE_RULES, type PayloadDigest } from '../../../../../domain/cohorts/edges/transitions.ts'
import { invalid } from '../../../../../domain/errors.ts'
import { sha256Hex } from '../../../../../platform/signing.ts'
import {
  type Agreement,
  type EdgeNegotiated,
  type EdgeOffer,
  INLINE_BYTES,
} from '../../../../../schemas/cohorts/edge.ts'
import type { Services } from '../../../../services.ts'
import { type EdgeStep, groundFacts, failStep, standingOf, takeStep, write } from './step.ts'

const URL_TTL_S = 3_600

/** Records one side's offer. A broken rule ends the attempt. */
export async function takeOffer(step: EdgeStep, offer: EdgeOffer): Promise<void> {
  const { role } = step.call
  const { closed, state } = step.edge
  if (closed || state === 'consumed' || state === 'failed') return
  const facts = spaceFact(step, offer)
  const mismatch = EDGE_RULES.space(facts)
  if (mismatch) return failStep(step, mismatch)
  // The producer states its new payload again in the next attempt.
  if (role === 'producer' && isReplaced(step.edge, statementIn(offer)?.sha256)) return moveOn(step)
  // A payload in transit or already delivered is not replaced.
  const mayState =
    role === 'producer' && (state !== 'open' || step.edge.sha256 === null) && state !== 'transferred'
  const edge = mayState ? await readStatement(step, offer) : {}
  if (!edge) return

  const { inline: _, ...rest } = offer
  const attempt = { [`${role}_offer`]: JSON.stringify(rest) }
  if (state === 'planned') await takeStep(step, 'offer', { facts, edge, attempt })
  else await write(step, { edge, attempt })
}

/**
 * Ends the attempt along with its payload and begins the next one, unless this producer has replaced too many payloads.
 */
async function moveOn(step: EdgeStep): Promise<void> {
  const { trx, call } = step
  if (!(await mayReplace(trx, { id: step.edge.id, leaseToken: call.body.lease_token })))
    return failStep(step, 'digest_mismatch')
  step.events.push(...(await replacePayload(trx, step.edge)))
  step.edge = await edgeRepository.readEdge(trx, step.edge.id)
  const {
    was_held: _,
    was_called_at: __,
    ...attempt
  } = await edgeRepository.callAttempt(trx, step.edge, call)
  step.attempt = attempt
}

/**
 * Advances the edge as far as both offers allow. A payload left by an earlier attempt can replace the producer's offer.
 */
export async function agreeOnEdge(step: EdgeStep): Promise<void> {
  const { attempt, edge } = step
  if (edge.closed) return
  const [producer, consumer] = [attempt.producer_offer ?? inheritedOffer(step), attempt.consumer_offer]
  if (producer && consumer && edge.state === 'negotiating') await agreeOn(step, { producer, consumer })
  if (step.edge.state === 'negotiated' || step.edge.state === 'connecting') await deposit(step)
  // The platform has stored a by-value payload in the row.
  const isGiven = edge.state === 'transferred' && !attempt.agreed
  if (producer && consumer && isGiven) {
    const agreement = await agreementOf(step, { producer, consumer })
    if (typeof agreement === 'string') await failStep(step, agreement)
    else if (agreement)
      await write(step, { attempt: { agreed: JSON.stringify({ ...agreement, adapter: null }) } })
  }
}

const spaceFact = ({ edge, call }: EdgeStep, offer: EdgeOffer) => ({
  space: {
    seen: offer.space_fingerprint,
    expected: call.role === 'producer' ? edge.source_fingerprint : edge.target_fingerprint,
  },
})

/**
 * Returns the producer's statement about its payload, with the payload itself if it was sent inline; undefined if it
 * breaks a rule, which ends the attempt.
 */
async function readStatement(step: EdgeStep, offer: EdgeOffer): Promise<EdgeChange['edge'] | undefined> {
  const { inline, size_bytes: size, sha256 } = offer
  const payload = inline === undefined ? undefined : Buffer.from(inline, 'base64')
  if (payload && payload.length > INLINE_BYTES) {
    throw invalid(['body', 'offer', 'inline'], `holds more than ${INLINE_BYTES} bytes`)
  }
  const stated = statementIn(offer)
  if (!stated) return {}
  const facts = {
    payload: { stated, seen: { bytes: size ?? stated.bytes, sha256: sha256 ?? stated.sha256 } },
    room: { bytes: stated.bytes, limit: step.attempt.agreed?.max_bytes ?? step.edge.max_bytes },
  }
  const failure = EDGE_RULES.size(facts) ?? EDGE_RULES.room(facts) ?? EDGE_RULES.digest(facts)
  if (failure) {
    await failStep(step, failure)
    return undefined
  }
  return {
    payload: payload ?? null,
    payload_node_id: payload ? null : step.call.nodeId,
    payload_key: null,
    size_bytes: stated.bytes,
    sha256: stated.sha256,
    shape: offer.shape ? JSON.stringify(offer.shape) : null,
    dtype: offer.dtype ?? null,
    encoding: offer.encodings[0] ?? null,
  }
}

/** Returns the size and digest of the payload that an offer states or contains. */
export function statementIn({
  inline,
  size_bytes: bytes,
  sha256,
}: Pick<EdgeOffer, 'inline' | 'size_bytes' | 'sha256'>): PayloadDigest | undefined {
  if (inline !== undefined) {
    const payload = Buffer.from(inline, 'base64')
    return { bytes: payload.length, sha256: sha256Hex(payload) }
  }
  return typeof bytes === 'number' && typeof sha256 === 'string' ? { bytes, sha256 } : undefined
}

/** Derives a producer offer from a payload in the row or the object store. */
function inheritedOffer({ edge }: EdgeStep): EdgeOffer | null {
  if (edge.size_bytes === null || edge.encoding === null) return null
  const transport = edge.payload ? 'inline' : edge.payload_key ? 'relay' : undefined
  if (!transport) return null
  return {
    modes: ['transfer'],
    transports: [transport],
    // Safe cast: the producer's own offer had this encoding.
    encodings: [edge.encoding as EdgeOffer['encodings'][number]],
    digests: ['sha256'],
    space_fingerprint: edge.source_fingerprint,
    max_bytes: edge.max_bytes,
  }
}

interface Offers {
  producer: EdgeOffer
  consumer: EdgeOffer
}

async function agreementOf({ edge, attempt, trx }: EdgeStep, offers: Offers) {
  const [from, to] = [attempt.producer_node_id, attempt.consumer_node_id]
  return agree(
    {
      mode: edge.mode,
      transports: edge.transports,
      maxBytes: edge.max_bytes,
      sourceFingerprint: edge.source_fingerprint,
    },
    {
      ...offers,
      isSameNode: from === to,
      isReachable: from === null || to === null || (await mayConnect(trx, edge.id, { from, to })),
      isInline: edge.sha256 === null ? undefined : edge.payload !== null,
    },
  )
}

/** After two corrupted transfers between two nodes, the payload goes through the object store. */
const mayConnect = async (trx: EdgeStep['trx'], edgeId: string, pair: edgeRateRepository.NodePair) =>
  (await edgeRateRepository.isReachable(trx, pair)) &&
  !(await edgeRateRepository.hasBrokenTwice(trx, edgeId, pair))

async function agreeOn(step: EdgeStep, offers: Offers): Promise<void> {
  const { edge } = step
  const agreement = await agreementOf(step, offers)
  if (!agreement) return
  const isAgreed = typeof agreement === 'object'
  const isStated = isAgreed && edge.size_bytes !== null
  await takeStep(step, 'agree', {
    facts: {
      ...groundFacts(step),
      disagreement: isAgreed ? undefined : agreement,
      room: isStated ? { bytes: edge.size_bytes ?? 0, limit: agreement.max_bytes } : undefined,
    },
    ...(isAgreed && {
      edge: { transport: agreement.transport },
      attempt: { agreed: JSON.stringify({ ...agreement, adapter: adapterOf(step) }) },
      data: { transport: agreement.transport, mode: agreement.mode },
    }),
  })
}

/** Returns the map that the evidence names; its URL is signed each time it is returned. */
function adapterOf({ evidence }: EdgeStep): Agreement['adapter'] {
  if (!evidence?.adapter) return null
  const { sha256, size_bytes } = evidence.adapter
  return { evidence_id: evidence.id, url: '', sha256, size_bytes }
}

/** Hands over a payload that the gateway has verified itself, or that is a file on the consumer's own node. */
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

/** Returns the response to a node's negotiation. */
export async function negotiated(
  step: EdgeStep,
  { objects }: Pick<Services, 'objects'>,
): Promise<EdgeNegotiated> {
  const { edge, attempt, call, trx } = step
  const directive = directiveOf(standingOf(step), call.role)
  const peer = call.role === 'producer' ? attempt.consumer_node_id : attempt.producer_node_id
  const hasArrived = edge.state === 'transferred' || edge.state === 'consumed'
  const isInline = call.role === 'consumer' && hasArrived && edge.transport === 'inline'
  return {
    ...directive,
    agreed: directive.proceed ? await withAdapter(step, objects) : null,
    size_bytes: edge.size_bytes,
    sha256: edge.sha256,
    shape: edge.shape,
    inline: isInline ? (edge.payload?.toString('base64') ?? null) : null,
    peer: await edgeRepository.findPeer(trx, peer),
  }
}

/** Returns the agreement, with a URL for the map that the consumer has to apply. */
async function withAdapter(
  { attempt: { agreed }, evidence, call }: EdgeStep,
  objects: Services['objects'],
): Promise<Agreement | null> {
  if (!agreed?.adapter || !evidence?.adapter || call.role === 'producer') return agreed
  const { url } = await objects.signGet(evidence.adapter.object_key, { expiresInS: URL_TTL_S })
  return { ...agreed, adapter: { ...agreed.adapter, url } }
}
