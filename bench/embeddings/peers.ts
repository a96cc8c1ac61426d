import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { pythonProcessEnv } from '../../node-runtime/environments/python-env.ts'
import { freePort } from '../../platform/free-ports.ts'
import { runProgram } from '../../platform/processes/run-program.ts'
import { llmPython } from '../../test/support/builders/models/tiny-llm.ts'
import { type LineProgram, startLineProgram } from '../line-program.ts'

const INSTALL_TIMEOUT_MS = 900_000
const START_TIMEOUT_MS = 180_000
const SENTENCE_TRANSFORMERS = ['sentence-transformers==6.2.0', 'scikit-learn', 'scipy']
/** Infinity pins transformers 4.57; the other packages are the newest compatible ones. */
const INFINITY = [
  'infinity-emb[server]==0.0.78',
  'transformers==4.57.6',
  'huggingface-hub<1',
  'tokenizers<0.23',
  'sentence-transformers<6',
  'click<8.2',
]

/** Installs packages in a separate environment in `home`, on top of the environment `below`, which has PyTorch. */
async function install(home: string, below: string, packages: readonly string[]): Promise<string> {
  await runProgram(below, ['-m', 'venv', home], { timeout: INSTALL_TIMEOUT_MS })
  const lib = join(home, 'lib')
  const [version = ''] = readdirSync(lib)
  const shared = join(dirname(dirname(below)), 'lib', version, 'site-packages')
  writeFileSync(join(lib, version, 'site-packages', 'below.pth'), `${shared}\n`)
  const python = join(home, 'bin', 'python')
  const pip = ['-m', 'pip', 'install', '-q', '--disable-pip-version-check', '--retries', '1', ...packages]
  await runProgram(python, pip, { timeout: INSTALL_TIMEOUT_MS, env: pythonProcessEnv() })
  return python
}

/** Copies a model for transformers 4, which doesn't know the tokenizer class that transformers 5 writes. */
export async function copyForOlder(model: string, target: string): Promise<string> {
  await cp(model, target, { recursive: true })
  const path = join(target, 'tokenizer_config.json')
  const config = JSON.parse(readFileSync(path, 'utf8')) as object
  writeFileSync(path, JSON.stringify({ ...config, tokenizer_class: 'PreTrainedTokenizerFast' }))
  return target
}

/** An embeddings server with OpenAI's API. */
export interface EmbeddingsPeer extends AsyncDisposable {
  url: string
  pid: number
  path: string
  /** The model name. */
  model: string
}

/** Starts infinity on PyTorch, on the device `cpu` or `cuda`. */
export async function startInfinity(folder: string, model: string, device: string): Promise<EmbeddingsPeer> {
  const python = await install(join(folder, 'infinity'), await llmPython(), INFINITY)
  const dtype = device === 'cpu' ? ['--dtype', 'float32'] : []
  const args = [
    'v2',
    '--model-id',
    model,
    '--batch-size',
    '32',
    '--no-bettertransformer',
    '--engine',
    'torch',
  ]
  const program = join(dirname(python), 'infinity_emb')
  const peer = await startPeer(program, [...args, '--device', device, ...dtype])
  return { ...peer, path: '/embeddings', model }
}

/** Starts vLLM's pooling runner with the interpreter of the platform's vLLM environment. Needs a GPU. */
export async function startVllm(python: string, model: string): Promise<EmbeddingsPeer> {
  const args = ['-m', 'vllm.entrypoints.cli.main', 'serve', model, '--served-model-name', 'model']
  const peer = await startPeer(python, [...args, '--runner', 'pooling', '--gpu-memory-utilization', '0.3'])
  return { ...peer, path: '/v1/embeddings', model: 'model' }
}

async function startPeer(
  program: string,
  args: readonly string[],
): Promise<AsyncDisposable & Pick<EmbeddingsPeer, 'url' | 'pid'>> {
  const port = await freePort()
  const child = spawn(program, [...args, '--port', String(port)], {
    env: pythonProcessEnv({ OMP_NUM_THREADS: '1', HF_HUB_OFFLINE: '1' }),
    stdio: 'ignore',
  })
  const url = `http://127.0.0.1:${port}`
  const endsAt = Date.now() + START_TIMEOUT_MS
  for (;;) {
    const status = await request(`${url}/health`).then(
      async ({ statusCode, body }) => (await body.dump(), statusCode),
      () => 0,
    )
    if (status === 200) break
    if (child.exitCode !== null || Date.now() > endsAt) throw new Error(`${program} did not start`)
    await sleep(500)
  }
  return {
    url,
    pid: child.pid ?? 0,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    },
  }
}

/** Starts sentence-transformers in a separate process; each input line names a kind of text to process. */
export async function startSentenceTransformers(
  folder: string,
  { embedder, reranker, texts, device }: Record<'embedder' | 'reranker' | 'texts' | 'device', string>,
): Promise<LineProgram> {
  const python = await installSentenceTransformers(join(folder, 'sentence-transformers'), await llmPython())
  const program = join(import.meta.dirname, 'peers.py')
  return startLineProgram(python, [program, texts, device, embedder, reranker])
}

/** Installs sentence-transformers in `home`, on top of the environment `below`; returns the interpreter. */
export const installSentenceTransformers = (home: string, below: string): Promise<string> =>
  install(home, below, SENTENCE_TRANSFORMERS)
