import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import { newId } from '../../../../domain/ids.ts'
import { temporaryFolder } from '../../builders/temporary-folder.ts'
import type { TestApi } from '../api.ts'
import { processesOn } from '../platform.ts'

/** A node in a separate process, which a test can kill. */
export interface NodeProcess extends AsyncDisposable {
  readonly name: string
  readonly dir: string
  /** Resolves when the process has exited, with its exit code, its output and the warnings from its log. */
  readonly ended: Promise<{ code: number | null; stderr: string; warned: string[] }>
  /** Returns the pids of its trainers, found by their command line. */
  trainers(): number[]
  kill(signal: 'SIGKILL' | 'SIGTERM'): Promise<void>
}

/** Starts the node program with a test gateway, which sends it the address of the gate. */
export async function startNodeProcess(
  api: TestApi,
  name: string,
  {
    dir: given,
    accountId = newId(),
    env = {},
  }: { dir?: string; accountId?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<NodeProcess> {
  await using stack = new AsyncDisposableStack()
  const dir = given ?? stack.use(temporaryFolder()).path
  const { db } = api.database
  await db
    .insertInto('account')
    .values({ id: accountId, name: 'owner' })
    .onConflict((oc) => oc.doNothing())
    .execute()
  const child = spawn(process.execPath, [join(import.meta.dirname, '../../../../workers/node.ts')], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      HEARTH_LOG_LEVEL: 'warn',
      HEARTH_GATEWAY_URL: api.baseUrl,
      HEARTH_NODE_TOKEN: await nodeRepository.createNodeToken(db, { accountId, sharing: 'shared' }),
      HEARTH_NODE_DIR: dir,
      HEARTH_NODE_NAME: name,
      HEARTH_NODE_MEMORY_MB: '2000',
      ...env,
    },
  })
  const exited = once(child, 'exit')
  let stderr = ''
  child.stderr.on('data', (chunk) => (stderr += String(chunk)))
  let logged = ''
  child.stdout.on('data', (chunk) => (logged += String(chunk)))
  const warned = () => logged.split('\n').filter((line) => line !== '')
  const ended = once(child, 'close').then(() => ({ code: child.exitCode, stderr, warned: warned() }))
  const kill = async (signal: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill(signal)
    await exited
  }
  stack.defer(() => kill('SIGTERM'))
  const opened = stack.move()
  return {
    name,
    dir,
    ended,
    kill,
    trainers: () =>
      processesOn(dir)
        .filter(({ command }) => command.includes('-m hearth_trainers') && !command.includes('launcher.py'))
        .map(({ pid }) => pid),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}
