import * as edgeRateRepository from '../../../../../db/repositories/cohorts/edge-rates.ts'
import { EDGE_SECONDS } from '../../../../../domain/cohorts/edges/deadlines.ts'
import { directiveOf } from '../../../../../domain/cohorts/edges/directive.ts'
import { invalid } from '../../../../../domain/errors.ts'
import { cohortEdgeKey } from '../../../../../domain/object-keys.ts'
import { addressOfCandidate, type EdgeAddresses } from '../../../../../platform/egress/edge-addresses.ts'
import type { Candidate, EdgeRendezvous, EdgeRendezvousRequest } from '../../../../../schemas/cohorts/edge.ts'
import type { Services } from '../../../../services.ts'
import { groundFacts, type EdgeStep, failStep, standingOf, takeStep, recordStepEvent, write } from './step.ts'

const RELAYED_TYPE = 'application/octet-stream'
const URL_TTL_S = 3_600

/** Records the producer's candidates, or the consumer's selection among them. */
export async function meet(
  step: EdgeStep,
  { candidates, spki_sha256, probes, selected }: EdgeRendezvousRequest,
  { edgeTickets, edgeAddresses }: Pick<Services, 'edgeTickets' | 'edgeAddresses'>,
): Promise<void> {
  if (step.edge.closed || (step.edge.state !== 'negotiated' && step.edge.state !== 'connecting')) return
  if (step.edge.state === 'negotiated') {
    if (!(await takeStep(step, 'connect', { facts: groundFacts(step) }))) return
  }
  const { edge, attempt, locked, call } = step
  if (call.role === 'consumer' && selected !== undefined) return select(step, { probes, selected })
  if (call.role === 'producer' && candidates && spki_sha256 !== undefined && attempt.consumer_node_id) {
    const edgeRef = { edgeId: edge.id, attempt: edge.attempt, consumerId: attempt.consumer_node_id }
    await write(step, {
      attempt: {
        candidates: JSON.stringify(permitted(candidates, edgeAddresses)),
        spki_sha256,
        ticket_sha256: edgeTickets.digestOf(edgeRef),
        ticket_expires_at: new Date(locked.now.getTime() + EDGE_SECONDS.ticket * 1_000),
      },
    })
  }
}

/**
 * Returns the candidates that consumers may connect to. Throws for host names, and for addresses in an unusual form.
 */
function permitted(candidates: readonly Candidate[], addresses: EdgeAddresses): Candidate[] {
  candidates.forEach(({ url }, index) => {
    if (addressOfCandidate(url) === undefined)
      throw invalid(['body', 'candidates', index, 'url'], 'must be https://address:port, with an IP address')
  })
  // Only when the consumer calls do we know whether it shares the producer's loopback.
  return candidates.filter(({ url }) => addresses.allows(url, { isSameMachine: true }))
}

/** Records the candidate that the consumer selected. If it selected none, relays the payload or ends the attempt. */
async function select(
  step: EdgeStep,
  {
    probes = [],
    selected,
  }: { probes?: EdgeRendezvousRequest['probes'] | undefined; selected: string | null },
): Promise<void> {
  const { attempt, trx } = step
  if (selected !== null) {
    if (!attempt.candidates?.some(({ url }) => url === selected))
      throw invalid(['body', 'selected'], 'is not one of the candidates')
    return write(step, { attempt: { selected, probes: JSON.stringify(probes) } })
  }
  const { producer_node_id: from, consumer_node_id: to } = attempt
  if (from && to) await edgeRateRepository.markUnreachable(trx, { from, to })
  await write(step, { attempt: { probes: JSON.stringify(probes) } })
  if (mayRelay(step)) await relay(step)
  else await failStep(step, 'unreachable', { probes: probes.length })
}

function mayRelay({ edge, attempt }: EdgeStep): boolean {
  const offers = [attempt.producer_offer, attempt.consumer_offer]
  return (
    (edge.transports?.includes('relay') ?? true) &&
    offers.every((offer) => offer?.transports.includes('relay') && offer.modes.includes('transfer'))
  )
}

async function relay(step: EdgeStep): Promise<void> {
  const agreed = step.attempt.agreed && { ...step.attempt.agreed, transport: 'relay', mode: 'transfer' }
  await write(step, {
    edge: { transport: 'relay' },
    attempt: { agreed: agreed && JSON.stringify(agreed) },
  })
  recordStepEvent(step, 'edge.relayed')
}

/** Returns the response to a node's rendezvous. */
export async function met(
  step: EdgeStep,
  { local_keys = [] }: EdgeRendezvousRequest,
  { edgeTickets, edgeAddresses, objects }: Pick<Services, 'edgeTickets' | 'edgeAddresses' | 'objects'>,
): Promise<EdgeRendezvous> {
  const { edge, attempt, call } = step
  const directive = directiveOf(standingOf(step), call.role)
  const answer: EdgeRendezvous = { ...directive, transport: edge.transport }
  if (!directive.proceed) return answer
  if (edge.transport === 'relay') return { ...answer, relay: await relayOf(step, objects) }
  const { candidates, spki_sha256, ticket_sha256, ticket_expires_at } = attempt
  if (!candidates || spki_sha256 === null || ticket_sha256 === null) return answer
  const expiry = ticket_expires_at && { ticket_expires_at: ticket_expires_at.toISOString() }
  if (call.role === 'producer') return { ...answer, ticket_sha256, ...expiry }
  const edgeRef = { edgeId: edge.id, attempt: edge.attempt, consumerId: call.nodeId }
  const ticket = edgeTickets.find(edgeRef, ticket_sha256)
  const isSameMachine = local_keys.includes(spki_sha256)
  const reachable = candidates.filter(({ url }) => edgeAddresses.allows(url, { isSameMachine }))
  return { ...answer, candidates: reachable, spki_sha256, ...(ticket !== undefined && { ticket }), ...expiry }
}

type Relay = NonNullable<EdgeRendezvous['relay']>

/** Returns the URL of a relayed payload: for the PUT, or for the GET once the payload is stored. */
async function relayOf(
  { edge, locked, call }: EdgeStep,
  objects: Services['objects'],
): Promise<Relay | null> {
  if (call.role === 'consumer') {
    if (edge.payload_key === null) return null
    const { url, expiresAt } = await objects.signGet(edge.payload_key, { expiresInS: URL_TTL_S })
    return { get_url: url, content_type: RELAYED_TYPE, expires_at: expiresAt.toISOString() }
  }
  // The store accepts only bytes with the digest that the producer declared.
  if (edge.sha256 === null) return null
  const key = relayKey(edge, locked.account_id)
  const signed = await objects.signPut(key, {
    expiresInS: URL_TTL_S,
    contentType: RELAYED_TYPE,
    sha256: edge.sha256,
  })
  return {
    put_url: signed.url,
    content_type: RELAYED_TYPE,
    headers: signed.headers,
    expires_at: signed.expiresAt.toISOString(),
  }
}

/** The object key of the payload that an attempt relays. */
export const relayKey = (
  { id, cohort_id, attempt }: Pick<EdgeStep['edge'], 'id' | 'cohort_id' | 'attempt'>,
  accountId: string,
): string => cohortEdgeKey({ accountId, cohortId: cohort_id, edgeId: id, attempt })

/** Returns whether a waiting node has what it needs from the other side. */
export function hasMet({ edge, attempt, call }: EdgeStep): boolean {
  const isUnderWay = edge.state === 'negotiated' || edge.state === 'connecting'
  if (edge.closed || !isUnderWay) return true
  if (call.role === 'producer') return edge.transport !== 'relay' || edge.sha256 !== null
  return edge.transport === 'relay' ? edge.payload_key !== null : attempt.candidates !== null
}
