import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { VERSION } from '../version.ts'
import type { ProcessKind } from './declarations.ts'
import type { Metrics } from './metrics.ts'

/** A finer resolution would wake an idle process more often. */
const RESOLUTION_MS = 50
const NS_PER_S = 1e9

/** Exposes the version, CPU time, memory and event loop of this process. */
export function watchProcess(metrics: Metrics, kind: ProcessKind): Disposable {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  delay.enable()
  let loop = performance.eventLoopUtilization()
  metrics.onScrape((observe) => {
    observe('hearth.build.info', 1, { version: VERSION, process: kind })
    observe('process.uptime', process.uptime())
    const { user, system } = process.cpuUsage()
    observe('process.cpu.time', user / 1e6, { 'cpu.mode': 'user' })
    observe('process.cpu.time', system / 1e6, { 'cpu.mode': 'system' })
    observe('process.memory.usage', process.memoryUsage.rss())
    const now = performance.eventLoopUtilization()
    observe('nodejs.eventloop.utilization', performance.eventLoopUtilization(now, loop).utilization)
    loop = now
    // The histogram has the time between two timers, which includes the resolution.
    const seconds = (ns: number) => Math.max(0, ns / NS_PER_S - RESOLUTION_MS / 1_000)
    if (delay.count === 0) return
    observe('nodejs.eventloop.delay.mean', seconds(delay.mean))
    observe('nodejs.eventloop.delay.p99', seconds(delay.percentile(99)))
    observe('nodejs.eventloop.delay.max', seconds(delay.max))
    delay.reset()
  })
  return { [Symbol.dispose]: () => delay.disable() }
}
