import type { Figure } from './floors.ts'
import type { Target } from './gateway-world.ts'
import type { LoadResult } from './loads.ts'
import { median } from './platform.ts'

// The results of the rounds of `bench/gateway.ts`, with their goals.

export const CONNECTIONS = 64
export const RATE = 100

/** One run of wrk. */
export interface Closed {
  rps: number
  cpuUs: number
  nodeCpuUs: number
  bad: number
}

/** One run of sse.mjs. */
export interface Sse {
  ttfb_p50: number
  chunk_delay_p50: number
  chunk_delay_p99: number
  chunks_s: number
  bad: number
  incomplete: number
}

/** The results of one target; entry n of every list is from round n. */
export class TargetRounds {
  readonly target: Target
  readonly warm: Closed[] = []
  readonly closed: Closed[] = []
  readonly alone: Closed[] = []
  readonly rate: LoadResult[] = []
  readonly paced: Sse[] = []
  readonly flat: Sse[] = []
  /** The memory after load. */
  memoryMb = Number.NaN

  constructor(target: Target) {
    this.target = target
  }

  /** The number of requests without a complete response. */
  get failed(): number {
    const bad = [
      ...[...this.warm, ...this.closed, ...this.alone].map((run) => run.bad),
      ...this.rate.map((run) => run.non2xx + run.errors),
      ...[...this.paced, ...this.flat].map((run) => run.bad + run.incomplete),
    ]
    return bad.reduce((sum, count) => sum + count, 0)
  }
}

/** The gateway, and the targets it is compared with. */
export interface GatewayComparison {
  direct: TargetRounds
  bare: TargetRounds
  gateway: TargetRounds
}

const of = <T>(list: readonly T[], pick: (run: T, round: number) => number) => median(list.map(pick))

const cpuOfBare = (runs: readonly Closed[], ofBare: readonly Closed[]) =>
  of(runs, (run, i) => run.cpuUs / (ofBare[i]?.cpuUs ?? Number.NaN))
const addedMs = (rounds: TargetRounds, direct: TargetRounds) =>
  of(rounds.rate, (run, i) => run.p50_ms - (direct.rate[i]?.p50_ms ?? Number.NaN))
const chunkDelayMs = (rounds: TargetRounds) => of(rounds.paced, (run) => run.chunk_delay_p50)
const chunksOfDirect = (rounds: TargetRounds, direct: TargetRounds) =>
  of(rounds.flat, (run, i) => run.chunks_s / (direct.flat[i]?.chunks_s ?? Number.NaN))

export function report(rounds: TargetRounds, { direct, bare }: GatewayComparison): void {
  const { target, closed, alone, paced, flat } = rounds
  const isServer = target.pid !== undefined
  console.log(`${target.name}${isServer ? ` (memory after load ${rounds.memoryMb.toFixed(0)} MB)` : ''}`)
  console.log(`  ${CONNECTIONS} at once: ${of(closed, (run) => run.rps).toFixed(0)} requests per second`)
  if (isServer) {
    const cpu = (runs: Closed[], ofBare: Closed[]) =>
      `${of(runs, (run) => run.cpuUs).toFixed(0)} µs, ${cpuOfBare(runs, ofBare).toFixed(2)} of the bare proxy`
    console.log(`  CPU per request: ${cpu(closed, bare.closed)}`)
    console.log(`  CPU per request, alone on its core: ${cpu(alone, bare.alone)}`)
    console.log(`  p50 at ${RATE} per second: ${addedMs(rounds, direct).toFixed(2)} ms more than direct`)
  }
  if (target.name === 'gateway')
    console.log(`  CPU per request, node: ${of(closed, (run) => run.nodeCpuUs).toFixed(0)} µs`)
  console.log(
    `  chunk delay p50 ${chunkDelayMs(rounds).toFixed(2)} ms, p99 ${of(paced, (run) => run.chunk_delay_p99).toFixed(2)} ms; ` +
      `${of(flat, (run) => run.chunks_s).toFixed(0)} chunks per second, ${chunksOfDirect(rounds, direct).toFixed(2)} of direct`,
  )
  console.log(`  failed: ${rounds.failed}`)
}

/** The gateway's figures with their goals. */
export const figuresOf = ({ direct, bare, gateway }: GatewayComparison): Figure[] => [
  { what: 'CPU per request, of bare proxy', goal: 1.25, measured: cpuOfBare(gateway.closed, bare.closed) },
  { what: 'ms added to p50', goal: 1.2, measured: addedMs(gateway, direct) },
  { what: 'chunk delay p50, ms', goal: 1, measured: chunkDelayMs(gateway) },
  { what: 'chunks, of direct', goal: 0.85, measured: chunksOfDirect(gateway, direct), isMost: true },
  { what: 'memory after load, MB', goal: 218, measured: gateway.memoryMb },
]
