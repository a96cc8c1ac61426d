import type { CohortEdgeRow, CohortStageRow, NewCohortEdge } from '../../../db/tables/cohorts.ts'
import { newId } from '../../../domain/ids.ts'
import { sha256Hex } from '../../../platform/signing.ts'
import type { EdgeOffer, EdgeRole } from '../../../schemas/cohorts/edge.ts'
import { buildCohort, buildEdge, buildStage, leaseStage, TEXT_SPACE } from '../builders/cohorts/cohorts.ts'
import type { Answer, AnyBody, TestApi } from '../servers/api.ts'
import { type SignedNode, signedNode } from '../servers/nodes/signed-node.ts'

export const PAYLOAD = Buffer.from('{"text":"hello"}')
const DIGEST = sha256Hex(PAYLOAD)

const OFFER: EdgeOffer = {
  modes: ['transfer'],
  transports: ['inline', 'direct', 'relay'],
  encodings: ['json'],
  digests: ['sha256'],
  space_fingerprint: TEXT_SPACE,
  max_bytes: 2 ** 20,
}
/** The fields that a producer adds once it has its payload. */
export const PAYLOAD_FIELDS = { size_bytes: PAYLOAD.length, sha256: DIGEST }
export const INLINE = { ...PAYLOAD_FIELDS, inline: PAYLOAD.toString('base64') }

/** One side of an edge: a node that holds the lease on its stage. */
export class EdgeSide {
  readonly node: SignedNode
  readonly #edge: Pick<CohortEdgeRow, 'id' | 'cohort_id'>
  readonly #role: EdgeRole
  readonly token: string
  /** The attempt number that it sends with its calls. */
  attempt = 1

  constructor(
    node: SignedNode,
    edge: Pick<CohortEdgeRow, 'id' | 'cohort_id'>,
    role: EdgeRole,
    token: string,
  ) {
    this.node = node
    this.#edge = edge
    this.#role = role
    this.token = token
  }

  /** Returns this side as seen by another node or under another lease. */
  as({ node = this.node, token = this.token }: Partial<Pick<EdgeSide, 'node' | 'token'>>): EdgeSide {
    return new EdgeSide(node, this.#edge, this.#role, token)
  }

  negotiate(offer: Partial<EdgeOffer> = {}, waitMs = 0): Promise<Answer<AnyBody>> {
    return this.call('negotiate', { role: this.#role, wait_ms: waitMs, offer: { ...OFFER, ...offer } })
  }

  consume(body: object = {}): Promise<Answer<AnyBody>> {
    return this.call('consume', {
      outcome: 'consumed',
      bytes: PAYLOAD.length,
      sha256: DIGEST,
      space_fingerprint: TEXT_SPACE,
      ...body,
    })
  }

  call(verb: string, body: object): Promise<Answer<AnyBody>> {
    const path = `/api/v1/cohorts/${this.#edge.cohort_id}/edges/${this.#edge.id}:${verb}`
    return this.node.post(path, { attempt: this.attempt, lease_token: this.token, ...body })
  }
}

/** Two stages on two nodes and the edge between them. */
export interface EdgeWorld {
  cohortId: string
  stages: readonly [CohortStageRow, CohortStageRow]
  edgeId: string
  producer: EdgeSide
  consumer: EdgeSide
}

/** Builds an edge whose two stages have just been claimed. */
export async function edgeWorld(
  api: TestApi,
  { edge: overrides = {}, nodes }: { edge?: Partial<NewCohortEdge>; nodes?: [SignedNode, SignedNode] } = {},
): Promise<EdgeWorld> {
  const { db } = api.database
  const { accountId } = await api.account()
  const [one, two] = nodes ?? [await signedNode(api, newId()), await signedNode(api, newId())]
  const cohort = await buildCohort(db, accountId)
  const from = await buildStage(db, cohort, { status: 'running' })
  const to = await buildStage(db, cohort, { position: 1 })
  const edge = await buildEdge(db, [from, to], overrides)
  return {
    cohortId: cohort.id,
    stages: [from, to],
    edgeId: edge.id,
    producer: new EdgeSide(one, edge, 'producer', await leaseStage(db, from, one.nodeId)),
    consumer: new EdgeSide(two, edge, 'consumer', await leaseStage(db, to, two.nodeId)),
  }
}
