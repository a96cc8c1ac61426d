import assert from 'node:assert/strict'
import {
  EDGE_RULES,
  EDGE_TRANSITIONS,
  type EdgeFacts,
  type EdgeMove,
  type EdgeMover,
  moveEdge,
} from '../../../domain/cohorts/edges/transitions.ts'
import type { EdgeState } from '../../../schemas/cohorts/vocabulary.ts'

const MAX_ATTEMPTS = 4
const MAX_FAULTS = 4

type Side = 'producer' | 'consumer'
/** The payload from a producer's first run, or the different one from its rerun; empty means no payload. */
type PayloadId = '' | 'one' | 'two'

/** The state that decides what can happen next around one edge. */
interface World {
  state: EdgeState
  attempt: number
  offered: Record<Side, boolean>
  /** The payload whose digest the producer has declared. */
  stated: PayloadId
  /** True if the payload is stored in the row. */
  isStored: boolean
  /** Each node, with the attempt it is working on. */
  producer: { isUp: boolean; attempt: number; holds: PayloadId }
  consumer: {
    isUp: boolean
    attempt: number
    bytes: 'none' | 'one' | 'two' | 'broken'
    stage: 'waits' | 'runs' | 'done'
  }
  isRevoked: boolean
  cohort: 'open' | 'succeeded' | 'failed' | 'cancelled'
  faults: number
  /** The property that was violated. */
  violation: string
}

const START: World = {
  state: 'planned',
  attempt: 1,
  offered: { producer: false, consumer: false },
  stated: '',
  isStored: false,
  producer: { isUp: true, attempt: 1, holds: '' },
  consumer: { isUp: true, attempt: 1, bytes: 'none', stage: 'waits' },
  isRevoked: false,
  cohort: 'open',
  faults: 0,
  violation: '',
}

type Rules = Parameters<typeof moveEdge>[2]
/** Applies a transition from the table; undefined when the table doesn't allow it. */
type Take = (world: World, move: EdgeMove, by: EdgeMover, facts?: EdgeFacts) => World | undefined

const taking =
  (rules: Rules): Take =>
  (world, move, by, facts) => {
    const outcome = moveEdge({ state: world.state, move, by }, facts, rules)
    if ('refused' in outcome) return undefined
    return { ...world, state: 'to' in outcome ? outcome.to : 'failed' }
  }

const evidence = ({ isRevoked }: World): EdgeFacts => ({ evidence: isRevoked ? 'revoked' : 'active' })
const seen = ({ stated }: World, bytes: string): EdgeFacts => ({
  payload: { stated: { bytes: 1, sha256: stated }, seen: { bytes: 1, sha256: bytes } },
})

/** Advances as far as the offers allow, like every negotiation call. */
function settle(take: Take, world: World, by: Side): World {
  const { offered, isStored, stated, state } = world
  const canAgree = offered.consumer && (offered.producer || isStored)
  let next = world
  if (state === 'negotiating' && canAgree) next = take(next, 'agree', by, evidence(world)) ?? next
  if (next.isStored && (next.state === 'negotiated' || next.state === 'connecting'))
    next = take(next, 'deposit', by, seen(next, stated)) ?? next
  return next
}

function* callsOf(take: Take, world: World, side: Side): Generator<World | undefined> {
  const node = world[side]
  if (!node.isUp) return
  // A node learns of a newer attempt when its call is rejected.
  if (node.attempt !== world.attempt) {
    yield {
      ...world,
      [side]: { ...node, attempt: world.attempt, ...(side === 'consumer' && { bytes: 'none' }) },
    }
    return
  }
  if (!world.offered[side]) {
    // The producer's offer declares the payload that it holds.
    const stated = side === 'producer' && world.producer.holds ? world.producer.holds : world.stated
    const isStored = world.isStored && stated === world.stated
    const offered = { ...world, stated, isStored, offered: { ...world.offered, [side]: true } }
    const isOffer = ['planned', 'negotiating', 'negotiated'].includes(world.state)
    const first = world.state === 'planned' ? take(offered, 'offer', side) : isOffer ? offered : undefined
    yield first && settle(take, first, side)
  }
  if (world.state === 'negotiated') yield take(world, 'connect', side, evidence(world))
}

function* ofProducer(take: Take, world: World): Generator<World | undefined> {
  yield* callsOf(take, world, 'producer')
  const { producer, stated, offered, state } = world
  const isCurrent = producer.isUp && producer.attempt === world.attempt
  if (isCurrent && !stated && offered.producer && state !== 'failed') yield* stating(take, world, 'one')
  if (isCurrent && stated === 'one' && world.faults < MAX_FAULTS)
    yield* remaking(take, { ...world, faults: world.faults + 1 })
  // The platform asks the producer to release payloads that are stored in the row or no longer needed.
  if (producer.isUp && producer.holds && world.consumer.stage === 'done')
    yield { ...world, producer: { ...producer, holds: '' } }
}

/** The producer holds the payload, or it is stored in the row, unless a consumer already receives it as frames. */
function* stating(take: Take, world: World, stated: PayloadId): Generator<World> {
  const { producer } = world
  yield settle(
    take,
    { ...world, stated, isStored: false, producer: { ...producer, holds: stated } },
    'producer',
  )
  if (world.state === 'open') return
  yield settle(take, { ...world, stated, isStored: true, producer: { ...producer, holds: '' } }, 'producer')
}

/** The producer's stage is repeated and produces a different payload. */
function* remaking(take: Take, world: World): Generator<World | undefined> {
  const { producer, state, attempt } = world
  if (state === 'planned' || state === 'negotiating') {
    if (world.offered.producer) yield* stating(take, world, 'two')
    return
  }
  if (state === 'consumed') {
    // The edge keeps the payload it already has.
    yield { ...world, producer: { ...producer, holds: 'two' } }
    return
  }
  if (state === 'failed' || attempt === MAX_ATTEMPTS) return
  const failed = take(world, 'fail', 'platform')
  const again = failed && take(failed, 'retry', 'platform')
  yield (
    again && {
      ...again,
      attempt: attempt + 1,
      offered: { producer: false, consumer: false },
      stated: '',
      isStored: false,
      producer: { ...producer, attempt: attempt + 1, holds: 'two' },
    }
  )
}

function* ofConsumer(take: Take, world: World): Generator<World | undefined> {
  yield* callsOf(take, world, 'consumer')
  const { consumer, producer, state } = world
  if (!consumer.isUp || consumer.attempt !== world.attempt) return
  const with_ = (change: Partial<World['consumer']>): World => ({
    ...world,
    consumer: { ...consumer, ...change },
  })
  if (state === 'connecting') yield take(world, 'open', 'consumer', { isHeld: true, isTicketValid: true })
  const isComing =
    (state === 'open' && producer.isUp && producer.holds) || (state === 'transferred' && world.isStored)
  if (isComing && consumer.bytes === 'none') {
    const bytes = state === 'open' ? producer.holds : world.stated
    yield with_({ bytes: bytes || 'none' })
    if (world.faults < MAX_FAULTS) yield { ...with_({ bytes: 'broken' }), faults: world.faults + 1 }
  }
  if (consumer.bytes !== 'none' && state === 'open')
    yield take(world, 'deliver', 'consumer', seen(world, consumer.bytes))
  if (consumer.bytes !== 'none' && state === 'transferred') {
    const next = take(world, 'consume', 'consumer', { ...seen(world, consumer.bytes), ...evidence(world) })
    const isBad = next?.state === 'consumed' && world.isRevoked
    yield next && { ...next, violation: isBad ? 'consumed on revoked evidence' : '' }
  }
  if (consumer.bytes !== 'none' && state === 'failed') yield with_({ bytes: 'none' })
  if (state === 'consumed' && consumer.stage === 'waits') {
    const isOther = consumer.bytes !== 'broken' && consumer.bytes !== world.stated
    const violation = isOther ? 'a stage runs on bytes other than those declared' : ''
    const isBroken = consumer.bytes === 'broken'
    yield {
      ...with_({ stage: 'runs' }),
      violation: isBroken ? 'a stage runs on corrupt bytes' : violation,
    }
  }
  if (consumer.stage === 'runs') yield { ...with_({ stage: 'done' }), cohort: 'succeeded' }
}

function* ofPlatform(take: Take, world: World): Generator<World | undefined> {
  const { producer, consumer, state, attempt } = world
  const needsProducer = !world.isStored && state !== 'transferred' && state !== 'consumed'
  if (state !== 'failed' && ((!producer.isUp && needsProducer) || !consumer.isUp))
    yield take(world, state === 'consumed' ? 'lose' : 'fail', 'platform')
  // The nodes may call once more between a revocation and the end of the work that relies on the evidence.
  if (world.isRevoked && state !== 'consumed') yield take(world, 'fail', 'platform')
  if (state !== 'failed') return
  if (world.isRevoked || attempt === MAX_ATTEMPTS) {
    yield { ...world, cohort: 'failed' }
    return
  }
  const again = take(world, 'retry', 'platform')
  const isGone = world.stated !== '' && !world.isStored && !(producer.isUp && producer.holds)
  const next = attempt + 1
  yield (
    again && {
      ...again,
      attempt: next,
      offered: { producer: false, consumer: false },
      stated: isGone ? '' : world.stated,
      producer: producer.isUp ? producer : { isUp: true, attempt: next, holds: '' },
      consumer: consumer.isUp
        ? { ...consumer, stage: 'waits' }
        : { isUp: true, attempt: next, bytes: 'none', stage: 'waits' },
    }
  )
}

function* faultsOf(world: World): Generator<World | undefined> {
  if (world.faults === MAX_FAULTS) return
  const after = { ...world, faults: world.faults + 1 }
  if (world.producer.isUp) yield { ...after, producer: { ...world.producer, isUp: false, holds: '' } }
  if (world.consumer.isUp && world.consumer.stage !== 'done')
    yield { ...after, consumer: { ...world.consumer, isUp: false, bytes: 'none', stage: 'waits' } }
  if (!world.isRevoked) yield { ...after, isRevoked: true }
  yield { ...after, cohort: 'cancelled' }
}

/** Both nodes learn that the cohort has ended, and drop the payloads they hold. */
function* ending(world: World): Generator<World> {
  const { producer, consumer } = world
  if (producer.isUp && producer.holds) yield { ...world, producer: { ...producer, holds: '' } }
  if (consumer.isUp && consumer.bytes !== 'none') yield { ...world, consumer: { ...consumer, bytes: 'none' } }
}

function movesOf(take: Take, world: World): World[] {
  if (world.cohort !== 'open') return [...ending(world)]
  const moves = [ofProducer, ofConsumer, ofPlatform].flatMap((of) => [...of(take, world)])
  return [...moves, ...faultsOf(world)].filter((next) => next !== undefined)
}

/** Explores the reachable states; returns the first violation and the number of moves that lead to it. */
function search(rules: Rules) {
  const take = taking(rules)
  const depths = new Map<string, number>([[JSON.stringify(START), 0]])
  const queue = [START]
  const reached = new Set<EdgeState>()
  let moves = 0
  // The loop body appends to the queue it iterates over.
  for (const world of queue) {
    const depth = depths.get(JSON.stringify(world)) ?? 0
    reached.add(world.state)
    if (world.violation) return { states: depths.size, moves, reached, violation: world.violation, depth }
    const following = movesOf(take, world)
    moves += following.length
    if (following.length === 0) {
      const isHeld = world.producer.holds !== '' || world.consumer.bytes !== 'none'
      const why = world.cohort === 'open' ? 'stuck' : isHeld ? 'something is still held at the end' : ''
      if (why)
        return { states: depths.size, moves, reached, violation: `${why}: ${JSON.stringify(world)}`, depth }
    }
    for (const next of following) {
      const key = JSON.stringify(next)
      if (depths.has(key)) continue
      depths.set(key, depth + 1)
      queue.push(next)
    }
  }
  return { states: depths.size, moves, reached, violation: '', depth: 0 }
}

describe('edge state machine', () => {
  it('ends cleanly in every interleaving of calls, node deaths, corrupt bytes, revocation and cancellation', () => {
    const { violation, states, moves, reached } = search(EDGE_RULES)

    assert.equal(violation, '')
    assert.ok(states > 1_000 && moves > states, `${states} states, ${moves} moves`)
    assert.equal(reached.size, 8)
  })

  it('would run a stage on corrupt bytes without the digest rule', () => {
    const { violation, depth } = search({ ...EDGE_RULES, digest: () => undefined })

    assert.equal(violation, 'a stage runs on corrupt bytes')
    assert.ok(depth <= 12, `found after ${depth} moves`)
  })

  it('would consume a payload on revoked evidence without the revocation rule', () => {
    const { violation } = search({ ...EDGE_RULES, revoked: () => undefined })

    assert.equal(violation, 'consumed on revoked evidence')
  })

  it('allows only the transitions in the table', () => {
    for (const [move, { from, by }] of Object.entries(EDGE_TRANSITIONS)) {
      for (const state of ['planned', 'open', 'consumed', 'failed'] as const) {
        for (const mover of ['producer', 'consumer', 'platform'] as const) {
          const outcome = moveEdge({ state, move: move as EdgeMove, by: mover })
          assert.equal('refused' in outcome, !from.includes(state) || !by.includes(mover))
        }
      }
    }
  })
})
