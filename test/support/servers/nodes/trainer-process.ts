import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { pythonProcessEnv } from '../../../../node-runtime/environments/python-env.ts'
import { temporaryFolder } from '../../builders/temporary-folder.ts'

const TRAINERS = join(import.meta.dirname, '..', '..', '..', '..', 'node-runtime', 'trainers')
const HOST = join(import.meta.dirname, 'trainer_host.py')

/** A running trainer. */
interface TrainerProcess {
  pid: number
  stdout: Readable
  stderr: Readable
  /** The exit status, after all output was read; null after a signal. */
  ended: Promise<number | null>
}

const environment = () => pythonProcessEnv({ PYTHONPATH: TRAINERS, OMP_NUM_THREADS: '1' })

/** Starts a trainer as a node does. */
export async function spawnTrainer(python: string, jobFile: string): Promise<TrainerProcess> {
  const child = spawn(python, ['-m', 'hearth_trainers', jobFile], {
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  await once(child, 'spawn')
  const ended = once(child, 'close').then(([code]) => code as number | null)
  return { pid: child.pid ?? 0, stdout: child.stdout, stderr: child.stderr, ended }
}

let host: ChildProcess | undefined

/** Starts a trainer in a fork of a process that has imported PyTorch: the import takes most of a short run's time. */
export async function forkTrainer(python: string, jobFile: string): Promise<TrainerProcess> {
  const folder = temporaryFolder()
  const path = join(folder.path, 'socket')
  const sockets: Socket[] = []
  const server = createServer((socket) => void sockets.push(socket)).listen(path)
  await once(server, 'listening')
  host ??= startHost(python)
  const lost = once(host, 'exit').then(([code]) => Promise.reject(new Error(`${HOST} ended with ${code}`)))
  lost.catch(() => {})
  host.stdin?.write(`${JSON.stringify({ job: jobFile, path })}\n`)
  while (sockets.length < 3) await Promise.race([once(server, 'connection'), lost])
  server.close()
  folder[Symbol.dispose]()

  const [status, stdout, stderr] = sockets as [Socket, Socket, Socket]
  const lines = createInterface({ input: status })[Symbol.asyncIterator]()
  const next = async () => Number((await lines.next()).value)
  const closed = [stdout, stderr].map((stream) => once(stream, 'close'))
  const pid = await next()
  const ended = Promise.all([next(), ...closed]).then(([code]) => (code < 0 ? null : code))
  return { pid, stdout, stderr, ended }
}

/** Starts the fork host. It exits with this process and doesn't keep this process alive. */
function startHost(python: string): ChildProcess {
  const child = spawn(python, [HOST], { env: environment(), stdio: ['pipe', 'ignore', 'inherit'] })
  child.unref()
  child.setMaxListeners(0)
  ;(child.stdin as unknown as Socket).unref()
  return child
}
