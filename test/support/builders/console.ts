import type { Browser } from 'playwright-core'
import type { TestApi } from '../servers/api.ts'
import { ConsoleTab } from '../servers/clients/browser.ts'

/** Opens a console page with a key, through a link like the one that `npm start` prints. */
export async function openSignedIn(
  browser: Browser,
  api: TestApi,
  path: string,
  key: string,
  options: Parameters<typeof ConsoleTab.open>[2] = {},
): Promise<ConsoleTab> {
  const tab = await ConsoleTab.open(browser, api.baseUrl, options)
  await tab.page.goto(`/console${path}#key=${key}`)
  return tab
}
