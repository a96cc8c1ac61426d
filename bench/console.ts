import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { Browser } from 'playwright-core'
import { readConfig } from '../platform/config.ts'
import { buildConsole } from '../platform/console-build.ts'
import { chromiumPath, launchChromium } from '../test/support/servers/clients/browser.ts'
import { BenchTab, memoryOfPages } from './console/tab.ts'
import { startWorld, type ConsoleFixture } from './console/world.ts'
import { lack } from './needs.ts'
import { cpuSeconds, median } from './platform.ts'
import { endWith, unlessOnce } from './rounds.ts'

// Measures the console for an account with 100,000 runs, one of which is active and has a log of 1,000,000 lines: the
// cost of the first view, the memory after minutes of live updates, the speed of its pages, and what an open page costs
// the gateway.

const RUNS = unlessOnce(100_000, 1_000)
const LINES = unlessOnce(1_000_000, 10_000)
const ROUNDS = unlessOnce(15)
const OPEN_AT_ONCE = 4
const PAGES = ['Runs', 'Models', 'Endpoints', 'Datasets', 'Tasks']
const GOALS = { firstViewCpuS: 1, memoryMb: 150, gatewayPercent: 0.5 }

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, seconds: { type: 'string', default: '60' } },
})
const minutes = Number(values.minutes)
const seconds = Number(values.seconds)
let isMissed = false

function printResult(what: string, value: string, isMet = true): void {
  isMissed ||= !isMet
  console.log(`${what.padEnd(66)} ${value}${isMet ? '' : '   MISSED'}`)
}

const { HEARTH_CACHE_DIR: cache } = readConfig()
await buildConsole(cache, console.log)
await timeBuild()
const path = chromiumPath()
if (path === undefined) lack('This bench needs Chromium. Put it on the path, or set CHROMIUM_PATH.')
console.log(
  `filling a database with ${RUNS.toLocaleString('en')} runs and ${LINES.toLocaleString('en')} lines ...`,
)
await using world = await startWorld(RUNS, LINES)
const browser = await launchChromium(path)
const control = new AbortController()
const going = world.live(control.signal)
try {
  await firstViews(browser, world)
  await clicks(browser, world)
  await gatewayCost(browser, world)
  await liveMemory(browser, world)
} finally {
  control.abort()
  await going
  await browser.close()
}
endWith(!isMissed)

/** Rebuilds the sources with the installed packages. */
async function timeBuild(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'hearth-bench-'))
  symlinkSync(join(cache, 'console-packages'), join(folder, 'console-packages'))
  const [began, before] = [performance.now(), process.resourceUsage()]
  await buildConsole(folder, () => {})
  const after = process.resourceUsage()
  const ownCpu = after.userCPUTime + after.systemCPUTime - before.userCPUTime - before.systemCPUTime
  printResult(
    'build',
    `${((performance.now() - began) / 1000).toFixed(1)} s, of which ${(ownCpu / 1e6).toFixed(1)} s CPU for packing`,
  )
  rmSync(folder, { recursive: true, force: true })
}

async function firstViews(on: Browser, at: ConsoleFixture): Promise<void> {
  const views = [
    ['/runs', (tab: BenchTab) => tab.page.getByRole('link', { name: 'at work' }).waitFor()],
    [`/runs/${at.runId}`, (tab: BenchTab) => tab.page.getByText(`step ${LINES}:`).first().waitFor()],
  ] as const
  for (const [view, isThere] of views) {
    await using tab = await BenchTab.open(on, at)
    const bytes = await tab.bytesOf(async () => {
      await tab.goto(view, at)
      await isThere(tab)
    })
    const { cpuS, scriptS, heapMb } = await tab.cost()
    const name = view === '/runs' ? `a page of ${RUNS} runs` : `a run with ${LINES} lines`
    printResult(
      `first view of ${name}`,
      `${cpuS.toFixed(2)} s CPU (${scriptS.toFixed(2)} s scripts), ${heapMb.toFixed(0)} MB heap, ${(bytes / 1000).toFixed(0)} kB over the network`,
      cpuS < GOALS.firstViewCpuS,
    )
  }
}

async function clicks(on: Browser, at: ConsoleFixture): Promise<void> {
  await using tab = await BenchTab.open(on, at)
  await tab.goto('/', at)
  await tab.page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  const first = new Map<string, number>()
  const later = new Map(PAGES.map((name) => [name, { times: [] as number[], cpu: [] as number[] }]))
  for (let round = 0; round <= ROUNDS; round++) {
    for (const name of PAGES) {
      const before = await tab.cost()
      const ms = await tab.clickToView(name)
      if (round === 0) first.set(name, ms)
      else {
        later.get(name)?.times.push(ms)
        later.get(name)?.cpu.push(1000 * ((await tab.cost()).cpuS - before.cpuS))
      }
    }
  }
  for (const [name, { times, cpu }] of later)
    printResult(
      `click to view: ${name}`,
      `p50 ${median(times).toFixed(0)} ms (${median(cpu).toFixed(0)} ms CPU), the first time ${first.get(name)?.toFixed(0)} ms`,
    )
}

/** Opens a page several times, and measures how much more CPU the gateway uses than when it is closed. */
async function gatewayCost(on: Browser, at: ConsoleFixture): Promise<void> {
  const idle = await shareOfCore(at.pid)
  printResult('the gateway without a console', `${(100 * idle).toFixed(2)} % of a core`)
  for (const view of ['/', '/runs', `/runs/${at.runId}`, '/queues']) {
    await using stack = new AsyncDisposableStack()
    for (let n = 0; n < OPEN_AT_ONCE; n++) {
      const tab = stack.use(await BenchTab.open(on, at))
      await tab.goto(view, at)
      await tab.page.getByRole('heading', { level: 1 }).waitFor()
    }
    await sleep(5_000)
    const each = (100 * ((await shareOfCore(at.pid)) - idle)) / OPEN_AT_ONCE
    const name = view === `/runs/${at.runId}` ? '/runs/{at work}' : view
    printResult(
      `an open console at ${name}`,
      `${each.toFixed(2)} % of a core each`,
      each <= GOALS.gatewayPercent,
    )
  }
}

async function shareOfCore(pid: number): Promise<number> {
  const [began, before] = [performance.now(), cpuSeconds(pid)]
  await sleep(seconds * 1000)
  return (cpuSeconds(pid) - before) / ((performance.now() - began) / 1000)
}

async function liveMemory(on: Browser, at: ConsoleFixture): Promise<void> {
  await using list = await BenchTab.open(on, at)
  await using run = await BenchTab.open(on, at)
  await list.goto('/runs', at)
  await run.goto(`/runs/${at.runId}`, at)
  await run.page.getByRole('log').waitFor()
  const before = await Promise.all([list, run].map((tab) => tab.cost({ isCollected: true })))
  await sleep(minutes * 60_000)
  const after = await Promise.all([list, run].map((tab) => tab.cost({ isCollected: true })))
  const processes = await memoryOfPages(on)
  for (const [name, n] of [
    ['the list of runs', 0],
    ['the active run', 1],
  ] as const) {
    const [from, to] = [before[n]?.heapMb ?? 0, after[n]?.heapMb ?? 0]
    const cpu = ((after[n]?.cpuS ?? 0) - (before[n]?.cpuS ?? 0)) / (minutes * 60)
    printResult(
      `${name} after ${minutes} min of live updates`,
      `${to.toFixed(0)} MB heap (${from.toFixed(0)} at first), ${(100 * cpu).toFixed(1)} % of a core in the browser`,
      to < GOALS.memoryMb,
    )
  }
  const [most = 0] = processes
  printResult("the larger of the tabs' processes", `${most.toFixed(0)} MB`, most < GOALS.memoryMb)
}
