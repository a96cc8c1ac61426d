import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { Pool } from 'undici'
import { pythonProcessEnv } from '../../../../node-runtime/environments/python-env.ts'
import { llmPython } from '../../builders/models/tiny-llm.ts'
import { specialistPython } from '../../builders/models/tiny-specialist.ts'
import { whisperPython } from '../../builders/models/tiny-speech.ts'

const SERVERS = join(import.meta.dirname, '..', '..', '..', '..', 'node-runtime', 'servers')
const PROBE = join(import.meta.dirname, '..', '..', 'builders', 'probes', 'specialist_probe.py')

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of every shape
type AnyBody = any

export interface SpecialistServer extends AsyncDisposable {
  pid: number
  /** Sends a request to a path of the server. */
  post(path: string, body: unknown): Promise<{ status: number; body: AnyBody }>
  /** Sends a request for a task type, by default the first one that the weights support. */
  ask(body: unknown, task?: string, signal?: AbortSignal): Promise<{ status: number; body: AnyBody }>
  kill(): void
}

/** A model server program and its environment. */
interface ServerProgram {
  file: string
  python: () => Promise<string>
}

/** The speech-to-text server. */
export const WHISPER: ServerProgram = { file: join(SERVERS, 'whisper_server.py'), python: whisperPython }
/** The PyTorch specialist server. */
export const TORCH: ServerProgram = { file: join(SERVERS, 'torch_server.py'), python: llmPython }
const ONNX: ServerProgram = { file: join(SERVERS, 'specialist_server.py'), python: specialistPython }

/** Starts the real server on a model. Rejects with the reason if the server rejects the weights. */
export async function startSpecialist(
  model: string,
  converted = '',
  { file, python }: ServerProgram = ONNX,
): Promise<SpecialistServer> {
  const args = [file, '--model', model, '--port', '0', ...(converted ? ['--converted', converted] : [])]
  const child = spawn(await python(), args, {
    env: pythonProcessEnv({ OMP_NUM_THREADS: '1', RAYON_NUM_THREADS: '1' }),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()))
  const exited = once(child, 'close')
  const ready = once(createInterface({ input: child.stdout }), 'line') as Promise<[string]>
  const [line] = await Promise.race([
    ready,
    exited.then(([code]) => Promise.reject(new Error(`${code} ${complaint}`))),
  ])
  const { port } = JSON.parse(line) as { port: number }
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: 64, headersTimeout: 0, bodyTimeout: 0 })
  const post = async (path: string, body: unknown, signal?: AbortSignal) => {
    const sent = typeof body === 'string' ? body : JSON.stringify(body)
    const answer = await pool.request({ method: 'POST', path, body: sent, ...(signal && { signal }) })
    return { status: answer.statusCode, body: (await answer.body.json()) as AnyBody }
  }
  return {
    pid: child.pid ?? 0,
    post,
    ask: (body, task, signal) => post(task === undefined ? '/infer' : `/infer/${task}`, body, signal),
    kill: () => void child.kill('SIGKILL'),
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      await exited
      await pool.destroy()
    },
  }
}

export interface ProbeRequest {
  ask: 'embed' | 'classify'
  folder: string
  texts: readonly (string | readonly [string, string])[]
  pooling?: string
  normalized?: boolean
  /** Number of leading tokens to skip. */
  skipped?: number
}

/** Returns the results of plain transformers for each request: vectors or logits. */
export async function probeSpecialists(requests: readonly ProbeRequest[]): Promise<number[][][]> {
  const child = spawn(await llmPython(), [PROBE], {
    env: pythonProcessEnv({ OMP_NUM_THREADS: '1' }),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.end(JSON.stringify(requests))
  const [out, complaint] = await Promise.all([text(child.stdout), text(child.stderr)])
  const last = out.trimEnd().split('\n').at(-1)
  if (!last) throw new Error(complaint)
  return JSON.parse(last) as number[][][]
}
