import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { BARE_ENV } from '../compile-cache.ts'

const MAIN = join(import.meta.dirname, '../../../api/main.ts')

/** A log line of a gateway. */
interface Line {
  msg?: string
  level: number
  base_url?: string
  gateway_id?: string
  path?: string
  [field: string]: unknown
}

/** A gateway in a separate process. */
export interface GatewayProcess extends AsyncDisposable {
  child: ChildProcess
  lines: Line[]
  /** Waits for the first matching line and returns it. */
  line(wanted: (line: Line) => boolean): Promise<Line>
  /** Waits until it's ready, and returns its URL and id. */
  ready(): Promise<{ baseUrl: string; gatewayId: string }>
  kill(): Promise<void>
}

/** Returns the settings of a gateway with a test database and without Temporal. */
export const gatewayEnv = (databaseUrl: string, objectDir: string): NodeJS.ProcessEnv => ({
  ...BARE_ENV,
  DATABASE_URL: databaseUrl,
  TEMPORAL_ADDRESS: '127.0.0.1:1',
  HEARTH_PORT: '0',
  HEARTH_OBJECT_DIR: objectDir,
  HEARTH_ENCRYPTION_KEYS: Buffer.alloc(32, 1).toString('base64'),
})

/** Starts the gateway's main program. */
export function runGateway(env: NodeJS.ProcessEnv): GatewayProcess {
  const child = spawn(process.execPath, [MAIN], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const lines: Line[] = []
  const waiting = new Set<() => void>()
  createInterface({ input: child.stdout }).on('line', (text) => {
    lines.push(JSON.parse(text) as Line)
    for (const look of waiting) look()
  })
  const line = (wanted: (line: Line) => boolean): Promise<Line> =>
    new Promise((resolve) => {
      const look = (): void => {
        const found = lines.find(wanted)
        if (!found) return
        waiting.delete(look)
        resolve(found)
      }
      waiting.add(look)
      look()
    })
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  return {
    child,
    lines,
    line,
    async ready() {
      const { base_url: baseUrl = '', gateway_id: gatewayId = '' } = await line(
        ({ base_url }) => base_url !== undefined,
      )
      return { baseUrl, gatewayId }
    },
    kill,
    [Symbol.asyncDispose]: kill,
  }
}
