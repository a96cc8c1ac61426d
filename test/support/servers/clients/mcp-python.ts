import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { ensurePythonEnv, pythonProcessEnv } from '../../../../node-runtime/environments/python-env.ts'
import { readConfig } from '../../../../platform/config.ts'
import { TEST_LOCKS } from '../../../../scripts/test-tools.ts'
import { requireInstalled } from '../../skip.ts'
import type { ToolAnswer } from './mcp-client.ts'

const SCRIPT = join(import.meta.dirname, 'mcp_client.py')

/** The official Python client in both revisions, and the FastMCP client. */
export const PYTHON_CLIENTS = ['mcp', 'mcp-legacy', 'fastmcp'] as const

/** A client in a separate Python process. */
export interface PythonMcp extends AsyncDisposable {
  call(name: string, args?: object): Promise<ToolAnswer & { progress: string[] }>
  names(): Promise<string[]>
}

/** For `before`: skips the suite, with the reason, if the clients can't be installed. */
export async function requirePythonMcp(this: Mocha.Context): Promise<void> {
  this.timeout(600_000)
  await requireInstalled(this, process.env.HEARTH_TEST_MCP_MISSING, mcpPython)
}

async function mcpPython(): Promise<string> {
  const options = { cacheDir: readConfig().HEARTH_CACHE_DIR, log: () => {}, locksDir: TEST_LOCKS }
  return (await ensurePythonEnv('mcp', options)).python
}

export async function startPythonMcp(
  client: (typeof PYTHON_CLIENTS)[number],
  { baseUrl, key }: { baseUrl: string; key: string },
): Promise<PythonMcp> {
  // Local gateways must not be reached through a proxy.
  const env = pythonProcessEnv({ NO_PROXY: '127.0.0.1', no_proxy: '127.0.0.1' })
  const child = spawn(await mcpPython(), [SCRIPT, client, `${baseUrl}/mcp`, key], {
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exit = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const ask = async <T>(name: string, args: object): Promise<T> => {
    child.stdin.write(`${JSON.stringify({ name, args })}\n`)
    const { value, done } = await lines.next()
    if (done) throw new Error('the Python client exited; see its output above')
    return JSON.parse(value) as T
  }
  return {
    call: (name, args = {}) => ask(name, args),
    names: async () => (await ask<{ names: string[] }>('list', {})).names,
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await exit
    },
  }
}
