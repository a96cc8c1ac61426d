import { at } from '../at.ts'

/**
 * The minimum number of copies and what sets it: `min`, the schedule that replaces it, or operators, who may set more.
 */
export interface MinCopies {
  readonly copies: number
  readonly by: 'min' | 'schedule' | 'operators'
}

/** The number of loaded copies that a model's endpoints request. */
export interface CopyTarget {
  readonly min: number
  readonly minBy: MinCopies['by']
  readonly max: number
  /** Target number of requests per copy, in flight or waiting. Without either target, we use a copy's concurrency. */
  readonly targetInFlight?: number | undefined
  /** Milliseconds that a request may wait for a copy. */
  readonly targetWaitMs?: number | undefined
  /** Seconds that a copy must be unneeded before it is unloaded; 0 means never. */
  readonly idleTimeoutS: number
}

/** The use of a model since the last decision, across all gateways. */
export interface CopyDemand {
  /** The mean number of requests in flight. */
  readonly inFlight: number
  /** The mean number of waiting requests, including queued tasks. */
  readonly waiting: number
  /** The mean time that a request spends in the model, in milliseconds; 0 when unknown. */
  readonly serviceMs: number
}

/** The copies of a model on nodes. */
export interface CopySupply {
  /** Copies that are loaded and stay loaded. */
  readonly loaded: number
  /** Copies that are being loaded. */
  readonly loading: number
  /** Requests that a copy serves at a time. */
  readonly concurrency: number
  /** How long another copy takes to load. */
  readonly loadS: number
}

/** The state of a model between two decisions. */
export interface CopyScale {
  /** The number of copies that should be loaded. */
  readonly copies: number
  /** Total seconds that requests have waited because of missing copies. */
  readonly waitedS: number
  /** For each number of copies, when that many were last needed, in milliseconds since 1970. */
  readonly neededAt: readonly number[]
}

export interface CopyDecision {
  readonly scale: CopyScale
  /** Why the number of copies changed; undefined when it didn't. */
  readonly reason?: string
}

/**
 * Copies are released only if the remaining ones would be at most this busy, so that the next request doesn't bring one
 * back.
 */
const MAX_SHARE_AFTER = 0.8

/** The scale of a model before the first decision. */
export const NO_COPIES: CopyScale = { copies: 0, waitedS: 0, neededAt: [] }

/**
 * Decides how many copies of a model should be loaded. A copy is added once the requests' total wait exceeds its load
 * time, and released once it has been unneeded for the idle timeout. No copy is added while others are loading, because
 * the requests waiting for those would trigger more than needed. A single decision at most doubles the number.
 */
export function decideCopies(
  want: CopyTarget,
  supply: CopySupply,
  { demand, before, now, elapsedS }: { demand: CopyDemand; before: CopyScale; now: number; elapsedS: number },
): CopyDecision {
  const { min, minBy, max } = want
  const wanted = demand.inFlight + demand.waiting
  const perCopy = capacityOf(want, supply, demand.serviceMs)
  const kept = Math.min(Math.max(before.copies, min), max)
  const scaleTo = (copies: number, waitedS = 0): CopyScale => ({
    copies,
    waitedS,
    neededAt: Array(copies).fill(now),
  })
  if (kept !== before.copies) {
    const reason =
      kept < before.copies
        ? `at most ${wantedCopies(max)}`
        : `at least ${wantedCopies(min)}${BY_WORDS[minBy]}`
    return { scale: scaleTo(kept), reason }
  }
  if (kept === 0)
    return wanted === 0 ? { scale: NO_COPIES } : { scale: scaleTo(1), reason: 'requests arrive' }
  const excess = wanted - kept * perCopy
  if (excess <= 0)
    return giveUp(want, supply, { needed: Math.ceil(wanted / (perCopy * MAX_SHARE_AFTER)), before, now })
  if (supply.loaded < kept || kept === max) return { scale: scaleTo(kept) }
  const waitedS = before.waitedS + excess * elapsedS
  if (waitedS < supply.loadS) return { scale: scaleTo(kept, waitedS) }
  const copies = Math.min(max, 2 * kept, Math.ceil(wanted / perCopy))
  const cost = `${round(waitedS)} s of waiting cost more than a load of ${round(supply.loadS)} s`
  const there = `${copiesOf(kept)} with up to ${round(perCopy)} each`
  return { scale: scaleTo(copies), reason: `${inWords(demand)} for ${there}: ${cost}` }
}

/** Releases the copies that have been unneeded for the idle timeout. */
function giveUp(
  { min, idleTimeoutS }: CopyTarget,
  { loading, loadS }: CopySupply,
  { needed, before, now }: { needed: number; before: CopyScale; now: number },
): CopyDecision {
  const least = Math.min(before.copies, Math.max(needed, min))
  const neededAt = Array.from({ length: before.copies }, (_, i) =>
    // A loading copy counts as needed until it has had time to be useful.
    i < least || loading > 0 ? now : (before.neededAt[i] ?? now),
  )
  const idleS = (copy: number) => (now - at(neededAt, copy - 1)) / 1_000
  const timeoutS = idleTimeoutS === 0 ? Number.POSITIVE_INFINITY : Math.max(idleTimeoutS, loadS)
  let { copies } = before
  while (copies > least && idleS(copies) >= timeoutS) copies -= 1
  const scale = { copies, waitedS: 0, neededAt: neededAt.slice(0, copies) }
  if (copies === before.copies) return { scale }
  const seconds = round(idleS(copies + 1))
  return {
    scale,
    reason:
      copies === 0
        ? `no request for ${seconds} s`
        : `${copiesOf(copies)} ${copies === 1 ? 'has' : 'have'} sufficed for ${seconds} s`,
  }
}

/** Returns how many requests, in flight and waiting, one copy should have. */
function capacityOf(
  { targetInFlight, targetWaitMs }: CopyTarget,
  { concurrency }: CopySupply,
  serviceMs: number,
): number {
  if (targetInFlight !== undefined) return targetInFlight
  if (targetWaitMs === undefined || serviceMs === 0) return concurrency
  return concurrency * (1 + targetWaitMs / serviceMs)
}

const BY_WORDS = { min: '', schedule: ' by the schedule', operators: ' by operators' } as const

/** Returns a number of copies in words. */
export const copiesOf = (count: number): string => (count === 1 ? '1 copy' : `${count} copies`)

const wantedCopies = (count: number): string => `${copiesOf(count)} ${count === 1 ? 'is' : 'are'} wanted`

const inWords = ({ inFlight, waiting }: CopyDemand): string =>
  `${round(inFlight)} requests in flight and ${round(waiting)} waiting`

const round = (value: number): number => (value < 10 ? Math.round(value * 10) / 10 : Math.round(value))
