import assert from 'node:assert/strict'
import { startApi, type TestApi } from './api.ts'
import { startDatabase } from './database.ts'
import { startTcpProxy } from './tcp-proxy.ts'

/** More than the gateway itself reads, and less than the text that tests store. */
const MAX_READ_BYTES = 1024 * 1024

/** A gateway whose reads from the database are counted. */
export interface LeanApi extends AsyncDisposable {
  readonly api: TestApi
  /** Runs an operation and asserts that the gateway receives less than a megabyte from the database. */
  readonly lean: <T>(run: () => Promise<T>) => Promise<T>
}

export async function startLeanApi(): Promise<LeanApi> {
  await using stack = new AsyncDisposableStack()
  const database = stack.use(await startDatabase())
  const url = new URL(database.url)
  const proxy = stack.use(await startTcpProxy(Number(url.port)))
  url.host = `127.0.0.1:${proxy.port}`
  const api = stack.use(await startApi({ database, env: { DATABASE_URL: url.href } }))
  const opened = stack.move()
  return {
    api,
    async lean(run) {
      const before = proxy.bytes
      const value = await run()
      const bytes = proxy.bytes - before
      assert.ok(bytes > 0 && bytes < MAX_READ_BYTES, `read ${bytes} bytes`)
      return value
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}
