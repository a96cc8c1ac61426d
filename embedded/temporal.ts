import { Connection } from '@temporalio/client'
import type { ChildSpec } from './child.ts'
import { StartError } from './options.ts'
import { onPath } from './programs.ts'

/** What workflows are found by in the UI; every one is a Keyword. */
const SEARCH_ATTRIBUTES = ['HearthAccount', 'HearthKind', 'HearthModel', 'HearthNode']

/** The development server, its state kept in one file. */
export function temporalChild(
  cli: string,
  { file, port, uiPort, cwd }: { file: string; port: number; uiPort: number; cwd: string },
): ChildSpec {
  const args = [
    'server start-dev --ip 127.0.0.1 --log-level warn --log-format json'.split(' '),
    ['--port', String(port), '--ui-port', String(uiPort), '--db-filename', file],
    SEARCH_ATTRIBUTES.flatMap((name) => ['--search-attribute', `${name}=Keyword`]),
  ].flat()
  const setpriv = process.platform === 'linux' ? onPath('setpriv') : undefined
  const command = setpriv ?? cli
  return {
    name: 'temporal',
    command,
    args: setpriv ? ['--pdeathsig=TERM', '--', cli, ...args] : args,
    env: process.env,
    cwd,
    stopSignal: 'SIGTERM',
    echo: false,
  }
}

/** Waits until the server answers. */
export async function temporalReady(address: string, timeoutMs = 30_000): Promise<void> {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    try {
      const connection = await Connection.connect({ address, connectTimeout: 1000 })
      try {
        await connection.workflowService.describeNamespace({ namespace: 'default' })
        return
      } finally {
        await connection.close()
      }
    } catch (cause) {
      if (Date.now() > deadline) throw new StartError(`Temporal at ${address} does not answer.`, { cause })
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}

/** Whether any process polls a task queue for workflows. */
export async function queueIsPolled(address: string, queue: string): Promise<boolean> {
  const connection = await Connection.connect({ address, connectTimeout: 1000 })
  try {
    const answer = await connection.workflowService.describeTaskQueue({
      namespace: 'default',
      taskQueue: { name: queue },
      taskQueueType: 1,
    })
    return (answer.pollers ?? []).length > 0
  } finally {
    await connection.close()
  }
}

/** Makes sure that a server which somebody else runs knows the search attributes. */
export async function addSearchAttributes(address: string, namespace: string): Promise<void> {
  const KEYWORD = 2
  const connection = await Connection.connect({ address })
  try {
    const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace })
    const missing = SEARCH_ATTRIBUTES.filter((name) => !customAttributes?.[name])
    if (missing.length === 0) return
    const searchAttributes = Object.fromEntries(missing.map((name) => [name, KEYWORD]))
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes })
  } finally {
    await connection.close()
  }
}
