import { readFileSync } from 'node:fs'
import type { Browser, BrowserContext, CDPSession, Page } from 'playwright-core'
import { OPERATIONS_KEY, type ConsoleFixture } from './world.ts'

const MB = 1_000_000

/** A tab's cost to its browser. */
interface Cost {
  /** CPU seconds of the thread that renders the page and runs its scripts. */
  cpuS: number
  scriptS: number
  heapMb: number
}

/** A browser tab with its measurements. It has its own context, and therefore its own process. */
export class BenchTab implements AsyncDisposable {
  readonly page: Page
  readonly #context: BrowserContext
  readonly #session: CDPSession

  private constructor(context: BrowserContext, page: Page, session: CDPSession) {
    this.#context = context
    this.page = page
    this.#session = session
  }

  static async open(browser: Browser, { baseUrl }: Pick<ConsoleFixture, 'baseUrl'>): Promise<BenchTab> {
    const context = await browser.newContext({ baseURL: baseUrl, viewport: { width: 1280, height: 900 } })
    context.setDefaultTimeout(60_000)
    const page = await context.newPage()
    const session = await context.newCDPSession(page)
    // Measure CPU time instead of wall-clock time, which includes other programs.
    await session.send('Performance.enable', { timeDomain: 'threadTicks' })
    await session.send('Network.enable')
    return new BenchTab(context, page, session)
  }

  async goto(path: string, { key }: Pick<ConsoleFixture, 'key'>): Promise<void> {
    await this.page.goto(`/console${path}#key=${key}&operations_key=${OPERATIONS_KEY}`)
  }

  /** Counts the bytes received over the network until the action is over. */
  async bytesOf(action: () => Promise<void>): Promise<number> {
    let bytes = 0
    const count = ({ encodedDataLength }: { encodedDataLength: number }) => (bytes += encodedDataLength)
    this.#session.on('Network.loadingFinished', count)
    await action()
    this.#session.off('Network.loadingFinished', count)
    return bytes
  }

  async cost({ isCollected = false } = {}): Promise<Cost> {
    if (isCollected) await this.#session.send('HeapProfiler.collectGarbage')
    const { metrics } = await this.#session.send('Performance.getMetrics')
    const of = (name: string) => metrics.find((each) => each.name === name)?.value ?? Number.NaN
    return { cpuS: of('TaskDuration'), scriptS: of('ScriptDuration'), heapMb: of('JSHeapUsedSize') / MB }
  }

  /** Clicks a menu entry; returns the milliseconds until its page shows its content. */
  async clickToView(name: string): Promise<number> {
    const expression = `new Promise((resolve) => {
      const name = ${JSON.stringify(name)}
      const began = performance.now()
      const isThere = () =>
        document.querySelector('h1')?.textContent === name && !document.querySelector('main [role=status]')
      const look = () => (isThere() ? resolve(performance.now() - began) : requestAnimationFrame(look))
      const links = [...document.querySelectorAll('nav a')]
      links.find((link) => link.textContent.trim() === name).click()
      requestAnimationFrame(look)
    })`
    const { result } = await this.#session.send('Runtime.evaluate', { expression, awaitPromise: true })
    return Number(result.value)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#context.close()
  }
}

/** Returns the megabytes of each renderer process; shared memory counts proportionally. */
export async function memoryOfPages(browser: Browser): Promise<number[]> {
  const session = await browser.newBrowserCDPSession()
  const { processInfo } = await session.send('SystemInfo.getProcessInfo')
  await session.detach()
  return processInfo
    .filter(({ type }) => type === 'renderer')
    .map(({ id }) => {
      const text = readFileSync(`/proc/${id}/smaps_rollup`, 'utf8')
      return (Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1]) * 1024) / MB
    })
    .toSorted((a, b) => b - a)
}
