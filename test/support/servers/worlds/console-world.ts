import type { Browser } from 'playwright-core'
import { openSignedIn } from '../../builders/console.ts'
import { startApi, type TestApi, type TestApiOptions } from '../api.ts'
import { type ConsoleTab, requireBrowser, requireConsole } from '../clients/browser.ts'

interface Caller {
  accountId: string
  key: string
}

/** A browser and a gateway that serves the console, with its own account. */
export class ConsoleWorld implements AsyncDisposable {
  readonly browser: Browser
  readonly api: TestApi
  readonly caller: Caller

  private constructor(browser: Browser, api: TestApi, caller: Caller) {
    this.browser = browser
    this.api = api
    this.caller = caller
  }

  /** For `before`: skips the suite if the console can't be built or there is no Chromium. */
  static async start(context: Mocha.Context, options: TestApiOptions = {}): Promise<ConsoleWorld> {
    await requireConsole(context)
    const browser = await requireBrowser(context)
    try {
      const api = await startApi(options)
      return new ConsoleWorld(browser, api, await api.account())
    } catch (err) {
      await browser.close()
      throw err
    }
  }

  open(path: string, key = this.caller.key): Promise<ConsoleTab> {
    return openSignedIn(this.browser, this.api, path, key)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.browser.close()
    await this.api[Symbol.asyncDispose]()
  }
}
