import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, type Dispatcher, request } from 'undici'
import { AdminClient } from '../cli/admin-client.ts'
import { importModel } from '../cli/commands/models.ts'
import { writeTinyGguf } from '../embedded/demo/tiny-gguf.ts'
import { ensurePackages } from '../node-runtime/environments/npm-env.ts'
import { ensurePythonEnv, pythonProcessEnv } from '../node-runtime/environments/python-env.ts'
import { processCommand } from '../node-runtime/models/launch.ts'
import { loadCatalog } from '../platform/catalog.ts'
import { readConfig } from '../platform/config.ts'
import { runProgram } from '../platform/processes/run-program.ts'
import type { RuntimeProfile } from '../schemas/nodes/runtime-profile.ts'
import { type BenchPlatform, median, startPlatform } from './platform.ts'
import { endWith, unlessOnce } from './rounds.ts'

// Measures the time to the first token of a model that no node has, through the platform (download, placement, load,
// one warm-up token, response). Compares it with starting the same model server by hand and sending the request to it.
// Then sends many such requests at once.

const ROUNDS = unlessOnce(3)
const WAITERS = unlessOnce(1_000, 50)
const MAX_RATIO = 1.1
const MAX_MORE_S = 1

interface Runtime {
  name: string
  /** The server is started by hand as a node starts it, with the same threads and concurrency. */
  profile: RuntimeProfile
  python: string | undefined
  packages?: string
  make: (path: string) => Promise<void>
  file: string
  /** Returns the path that the server loads: the folder, if the model is a single file. */
  modelDir: (path: string) => string
}

const question = (model: string) =>
  JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4, stream: true })

interface Chunk {
  choices?: {
    delta?: { content?: string | null; reasoning_content?: string | null; tool_calls?: unknown[] }
  }[]
}

/** Returns whether an event contains generated text; some servers send the role first. */
function isToken(line: string): boolean {
  if (!line.startsWith('data: {')) return false
  const { choices = [] } = JSON.parse(line.slice('data: '.length)) as Chunk
  return choices.some(
    ({ delta }) => delta?.content || delta?.reasoning_content || (delta?.tool_calls ?? []).length > 0,
  )
}

/** Returns the seconds until the first token of a stream. */
async function firstToken(
  url: string,
  model: string,
  {
    key = '',
    dispatcher,
    isPatient = false,
  }: { key?: string; dispatcher?: Dispatcher | undefined; isPatient?: boolean } = {},
): Promise<number> {
  const began = performance.now()
  const { statusCode, headers, body } = await request(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: question(model),
    headersTimeout: 0,
    ...(dispatcher && { dispatcher }),
  })
  // OpenAI's client libraries retry as well.
  if (statusCode === 429 && isPatient) {
    await body.dump()
    await sleep(1_000 * Number(headers['retry-after']))
    return firstToken(url, model, { key, dispatcher, isPatient })
  }
  if (statusCode !== 200) throw new Error(`answered ${statusCode}: ${await body.text()}`)
  let first: number | undefined
  for await (const line of createInterface({ input: body })) {
    if (first === undefined && isToken(line)) first = performance.now()
  }
  if (first === undefined) throw new Error('the response had no token')
  return (first - began) / 1_000
}

/** Starts the server as if from a shell, and sends a request as soon as it's ready. */
async function byHand(runtime: Runtime, path: string): Promise<number> {
  const socket = join(tmpdir(), `hearth-${randomUUID().slice(0, 8)}.sock`)
  const { command, args, env } = processCommand({ ...runtime, modelDir: runtime.modelDir(path) }, { socket })
  const began = performance.now()
  const server = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'ignore'] })
  try {
    for await (const line of createInterface({ input: server.stdout })) {
      if (!line.includes('"event"')) continue
      const dispatcher = new Client('http://localhost', { socketPath: socket })
      await firstToken('http://localhost', 'model', { dispatcher })
      await dispatcher.close()
      return (performance.now() - began) / 1_000
    }
    throw new Error('the model server exited before it was ready')
  } finally {
    server.kill('SIGKILL')
    await once(server, 'exit')
  }
}

async function measure(platform: BenchPlatform, runtime: Runtime, folder: string): Promise<boolean> {
  const path = join(folder, runtime.file)
  await runtime.make(path)
  const through: number[] = []
  const direct: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const name = `cold-${runtime.name}-${round}`.toLowerCase()
    const { model_key } = await importChatModel(platform, name, path)
    direct.push(await byHand(runtime, path))
    through.push(await firstToken(platform.baseUrl, name, { key: platform.apiKey }))
    const onNode = loadsOf(platform, model_key).map(({ ms }) => seconds(ms / 1_000))
    console.log(
      `  by hand ${seconds(direct.at(-1))}   through the platform ${seconds(through.at(-1))}, on the node ${onNode.join()}`,
    )
  }
  const [platformS, handS] = [median(through), median(direct)]
  const most = handS * MAX_RATIO + MAX_MORE_S
  console.log(
    `${runtime.name}: first token of a cold model ${seconds(platformS)}   by hand ${seconds(handS)}   ` +
      `ratio ${(platformS / handS).toFixed(2)}   at most ${seconds(most)}`,
  )
  return platformS <= most
}

const seconds = (count = Number.NaN) => `${count.toFixed(2)} s`

/** Returns the load times in the node's log: milliseconds from the load request to the end of the warm-up. */
const loadsOf = (platform: BenchPlatform, modelKey: string) =>
  readFileSync(join(platform.logs, 'node.log'), 'utf8')
    .split('\n')
    .filter((line) => line.includes('"model.loaded"') && line.includes(modelKey))
    .map((line) => JSON.parse(line) as { ms: number })

const importChatModel = (platform: BenchPlatform, name: string, path: string) =>
  importModel(new AdminClient(platform.baseUrl, platform.operationsKey), {
    name,
    path,
    task: 'chat',
    accountId: platform.accountId,
  })

/** Sends many requests for one cold model at once; prints how many succeed, and how often the model was loaded. */
async function herd(platform: BenchPlatform, path: string): Promise<boolean> {
  const { model_key } = await importChatModel(platform, 'cold-herd', path)
  const began = performance.now()
  const calls = Array.from({ length: WAITERS }, () =>
    firstToken(platform.baseUrl, 'cold-herd', { key: platform.apiKey, isPatient: true }),
  )
  const answers = await Promise.allSettled(calls)
  const seconds = (performance.now() - began) / 1_000
  const answered = answers.filter(({ status }) => status === 'fulfilled').length
  const loads = loadsOf(platform, model_key).length
  console.log(
    `${WAITERS} concurrent requests for a cold model: ${answered} answered in ${seconds.toFixed(1)} s, ${loads} load`,
  )
  const refused = answers.find((answer) => answer.status === 'rejected')
  if (refused) console.log(`  the others: ${String(refused.reason).slice(0, 200)}`)
  return answered === WAITERS && loads === 1
}

const folder = mkdtempSync(join(tmpdir(), 'hearth-coldstart-'))
try {
  const options = { cacheDir: readConfig().HEARTH_CACHE_DIR, log: console.log }
  const packages = await ensurePackages('llamacpp', options)
  const { python } = await ensurePythonEnv('llm', options)
  const catalog = loadCatalog()
  const profileOf = (id: string) => {
    const profile = catalog.profile(id)
    if (!profile) throw new Error(`there is no profile ${id}`)
    return profile
  }
  const llama: Runtime = {
    name: 'llama.cpp',
    profile: profileOf('llm-llamacpp'),
    python: undefined,
    packages,
    make: writeTinyGguf,
    file: 'tiny.gguf',
    modelDir: dirname,
  }
  const torch: Runtime = {
    name: 'PyTorch',
    profile: profileOf('llm-transformers'),
    python,
    make: async (path) =>
      void (await runProgram(python, ['test/support/builders/models/tiny_llm.py', path], {
        env: pythonProcessEnv(),
      })),
    file: 'tiny',
    modelDir: (path) => path,
  }
  await using platform = await startPlatform()
  const holds = [
    await measure(platform, llama, folder),
    await herd(platform, join(folder, llama.file)),
    await measure(platform, torch, folder),
  ]
  endWith(!holds.includes(false))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
