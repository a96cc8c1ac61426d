import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { ensurePythonEnv, pythonProcessEnv } from '../../../../node-runtime/environments/python-env.ts'
import { readConfig } from '../../../../platform/config.ts'
import { TEST_LOCKS } from '../../../../scripts/test-tools.ts'
import { requireInstalled } from '../../skip.ts'

const SCRIPT = join(import.meta.dirname, 'openai_client.py')

/** An exception of the client: its class name, and the fields that callers read. */
interface ClientError {
  name: string
  status: number | null
  code: string | null
  retry_after: string | null
}

/** The official client in a separate Python process. */
export interface PythonClient extends AsyncDisposable {
  /** Calls a function of `openai_client.py` and returns its result; throws if the client raised an exception. */
  call(name: string, key: string, options?: object): Promise<unknown>
  /** Returns the exception of a call; throws if there is none. */
  raisedBy(name: string, key: string, options?: object): Promise<ClientError>
}

/** For `before`: skips the suite, with the reason, if the client can't be installed. */
export async function requireOpenaiClient(this: Mocha.Context): Promise<void> {
  this.timeout(600_000)
  await requireInstalled(this, process.env.HEARTH_TEST_OPENAI_MISSING, openaiPython)
}

/** Returns the interpreter of an environment with only the client; the first call installs it in seconds. */
async function openaiPython(): Promise<string> {
  const options = { cacheDir: readConfig().HEARTH_CACHE_DIR, log: () => {}, locksDir: TEST_LOCKS }
  return (await ensurePythonEnv('openai', options)).python
}

export async function startPythonClient(baseUrl: string): Promise<PythonClient> {
  // Local gateways must not be reached through a proxy.
  const env = pythonProcessEnv({ NO_PROXY: '127.0.0.1', no_proxy: '127.0.0.1' })
  // The client warns about routes that only OpenAI's older models serve.
  const options = ['-W', 'ignore::DeprecationWarning']
  const child = spawn(await openaiPython(), [...options, SCRIPT, baseUrl], {
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exit = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()

  const ask = async (call: string, key: string, options: object): Promise<object> => {
    child.stdin.write(`${JSON.stringify({ call, key, with: options })}\n`)
    const { value, done } = await lines.next()
    if (done) throw new Error('the Python client exited; see its output above')
    return JSON.parse(value) as object
  }
  return {
    async call(name, key, options = {}) {
      const reply = await ask(name, key, options)
      if ('answer' in reply) return reply.answer
      throw new Error(`${name} raised ${JSON.stringify(reply)}`)
    },
    async raisedBy(name, key, options = {}) {
      const reply = await ask(name, key, options)
      if ('raised' in reply) return reply.raised as ClientError
      throw new Error(`${name} raised nothing: ${JSON.stringify(reply)}`)
    },
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await exit
    },
  }
}
