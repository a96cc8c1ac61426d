import { accessSync, constants } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { AxeBuilder } from '@axe-core/playwright'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { readConfig } from '../../../../platform/config.ts'
import { buildConsole } from '../../../../platform/console-build.ts'
import { requireInstalled } from '../../skip.ts'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'chrome']
/** The folder for screenshots of each page, for manual review. */
const PICTURES = process.env.HEARTH_TEST_PICTURES ?? join(tmpdir(), 'hearth-console-pictures')

/** For `before`: builds the console, or skips the suite if its packages can't be installed. */
export async function requireConsole(context: Mocha.Context): Promise<void> {
  context.timeout(180_000)
  await requireInstalled(context, undefined, () => buildConsole(readConfig().HEARTH_CACHE_DIR, () => {}))
}

/** For `before`: skips the suite if there is no Chromium. `CHROMIUM_PATH` names one that isn't on the PATH. */
export async function requireBrowser(context: Mocha.Context): Promise<Browser> {
  const path = chromiumPath()
  const missing = path === undefined ? `there is no ${NAMES[0]} on the path` : undefined
  await requireInstalled(context, missing, async () => {})
  return launchChromium(path ?? '')
}

export const launchChromium = (executablePath: string): Promise<Browser> =>
  chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })

export const chromiumPath = (): string | undefined => process.env.CHROMIUM_PATH ?? onPath()

function onPath(): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter)
  return folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(isProgram)
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** A tab that records what the console must never do. */
export class ConsoleTab implements AsyncDisposable {
  readonly page: Page
  readonly context: BrowserContext
  /** Violations of the policy, uncaught errors, and requests to another origin. */
  readonly faults: string[] = []

  private constructor(context: BrowserContext, page: Page) {
    this.context = context
    this.page = page
  }

  static async open(
    browser: Browser,
    baseUrl: string,
    { scheme = 'light', width = 1280 }: { scheme?: 'light' | 'dark'; width?: number } = {},
  ): Promise<ConsoleTab> {
    const viewport = { width, height: 900 }
    const context = await browser.newContext({ baseURL: baseUrl, colorScheme: scheme, viewport })
    context.setDefaultTimeout(15_000)
    const tab = new ConsoleTab(context, await context.newPage())
    await context.exposeFunction('noteViolation', (what: string) => tab.faults.push(`policy: ${what}`))
    await context.addInitScript(`
      document.addEventListener('securitypolicyviolation', (event) =>
        noteViolation(event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sourceFile))
    `)
    tab.page.on('pageerror', (err) => tab.faults.push(`error: ${err.message}`))
    tab.page.on('console', (message) => {
      const isRefusal = message.text().startsWith('Failed to load resource')
      if (message.type() === 'error' && !isRefusal) tab.faults.push(`error: ${message.text()}`)
    })
    tab.page.on('request', (request) => {
      const url = request.url()
      if (!url.startsWith('data:') && new URL(url).origin !== baseUrl) tab.faults.push(`request: ${url}`)
    })
    return tab
  }

  /**
   * Returns axe's serious and critical findings. Hides the shadows of wide tables, because axe can't measure contrast
   * over them.
   */
  async barriers(): Promise<string[]> {
    const shaded = this.page.locator('.wide')
    const paint = (background: string): Promise<void> =>
      shaded.evaluateAll((tables, value) => {
        for (const { style } of tables as { style: { background: string } }[]) style.background = value
      }, background)
    await paint('none')
    const { violations } = await new AxeBuilder({ page: this.page }).analyze()
    await paint('')
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`))
  }

  /** Takes a screenshot of the whole page, or of a window of this height. */
  async picture(name: string, height?: number): Promise<void> {
    await mkdir(PICTURES, { recursive: true })
    // Scroll up first; otherwise fixed parts would appear in the middle of the screenshot.
    await this.page.locator('html').evaluate((html: { scrollTop: number }) => (html.scrollTop = 0))
    const path = join(PICTURES, `${name}.png`)
    if (height === undefined) {
      await this.page.screenshot({ path, fullPage: true })
      return
    }
    const usual = this.page.viewportSize()
    await this.page.setViewportSize({ width: usual?.width ?? height, height })
    // Wait for the color transition of field borders after the color scheme changes.
    await this.page.waitForTimeout(400)
    await this.page.screenshot({ path })
    if (usual) await this.page.setViewportSize(usual)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.context.close()
  }
}
