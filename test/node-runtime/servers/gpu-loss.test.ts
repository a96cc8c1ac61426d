import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { request } from 'undici'
import { pythonProcessEnv } from '../../../node-runtime/environments/python-env.ts'
import { llmPython, makeTinyLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const PROGRAM = join(import.meta.dirname, '..', '..', 'support', 'servers', 'nodes', 'lost_gpu_server.py')
const NAMES = ['access', 'assert', 'cublas', 'memory', 'unsupported', 'input']
const CHAT = { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 }

/** Starts a server whose CUDA fails when a request says so. */
async function start(...args: string[]) {
  const child = spawn(await llmPython(), [PROGRAM, ...args], {
    env: pythonProcessEnv({ OMP_NUM_THREADS: '1' }),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()))
  const exited = once(child, 'close')
  const ready = once(createInterface({ input: child.stdout }), 'line') as Promise<[string]>
  const [line] = await Promise.race([ready, exited.then(() => Promise.reject(new Error(complaint)))])
  const { port } = JSON.parse(line) as { port: number }
  return {
    async post(path: string, body: object): Promise<{ status: number; text: string }> {
      const url = `http://127.0.0.1:${port}${path}`
      const answer = await request(url, { method: 'POST', body: JSON.stringify(body) })
      return { status: answer.statusCode, text: await answer.body.text() }
    },
    /** Returns the exit status of the server and the line that a node parses. */
    async ended(): Promise<[unknown, string | undefined]> {
      const [code] = await exited
      return [code, complaint.split('\n').findLast((one) => one.startsWith('it was placed on a GPU'))]
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

const lineOf = (error: string): string => `it was placed on a GPU that it cannot use: ${error}`

describe('a model server whose GPU fails', function () {
  this.timeout(120_000)
  before(requireLlm)

  it('returns 500 for a request that lost the GPU, then exits with 69 and the reason', async () => {
    await using turns = await start('turns')

    const { status } = await turns.post('/infer/ocr', { fails: 'cublas' })

    assert.equal(status, 500)
    assert.deepEqual(await turns.ended(), [
      69,
      lineOf('RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`'),
    ])
  })

  it('survives out-of-memory and input errors, and exits when a stream loses the GPU', async () => {
    await using generations = await start('generations')
    const statuses = []
    for (const fails of ['memory', 'unsupported', 'input', undefined])
      statuses.push((await generations.post('/infer', { fails })).status)

    const { status, text } = await generations.post('/infer', { fails: 'access', steps: 2 })

    assert.deepEqual(statuses, [500, 500, 500, 200])
    assert.equal(status, 200)
    assert.match(text, /"event":"error".*"retryable":true/)
    assert.deepEqual(await generations.ended(), [
      69,
      lineOf(
        'AcceleratorError: CUDA error: an illegal memory access was encountered Compile with `TORCH_USE_CUDA_DSA`.',
      ),
    ])
  })

  it("exits after a chat stream's last event if that stream lost the GPU", async () => {
    using folder = temporaryFolder()
    await makeTinyLlm(folder.path)
    await using chats = await start('chats', folder.path)
    const chat = (fails: string, more = {}) =>
      chats.post('/v1/chat/completions', { ...CHAT, seed: NAMES.indexOf(fails), ...more })
    const statuses = []
    for (const fails of ['memory', 'unsupported', 'input', '']) statuses.push((await chat(fails)).status)

    const { status, text } = await chat('assert', { stream: true })

    assert.deepEqual(statuses, [500, 500, 500, 200])
    assert.equal(status, 200)
    assert.match(text, /"type":"server_error"/)
    assert.deepEqual(await chats.ended(), [
      69,
      lineOf('AcceleratorError: CUDA error: device-side assert triggered'),
    ])
  })
})
