import type { IncomingMessage, ServerResponse } from 'node:http'
import { loadBinding } from './binding.ts'
import { bodyOf, endWith, send, serve, serverOptions } from './serving.ts'
import type { Body } from './specialist/fields.ts'
import { SpecialistModel } from './specialist/model.ts'
import { openaiEmbeddings, openaiRerank } from './specialist/openai.ts'
import { BadOutput, InputProblem } from './specialist/problems.ts'
import { answerEmbeddings, answerRerank } from './specialist/tasks.ts'

const MAX_BODY = 16 * 1024 * 1024
/** The maximum number of requests that may wait for the model. */
const MAX_WAITING = 256

type Work = (model: SpecialistModel, body: Body, signal: AbortSignal) => Promise<object>

/** The requests that each kind of weights supports, by path. */
const ROUTES: Readonly<Record<SpecialistModel['task'], Readonly<Record<string, Work>>>> = {
  embeddings: {
    '/infer': answerEmbeddings,
    '/infer/embeddings': answerEmbeddings,
    '/v1/embeddings': openaiEmbeddings,
  },
  rerank: {
    '/infer': answerRerank,
    '/infer/rerank': answerRerank,
    '/v1/rerank': openaiRerank,
    '/v2/rerank': openaiRerank,
  },
}

/** Loads a GGUF and serves embeddings or reranking: see ../README.md. */
async function main(): Promise<void> {
  const options = serverOptions()
  const model = await SpecialistModel.load(await loadBinding(options.packages), options)
  let waiting = 0
  serve(options, (request, response) => {
    waiting += 1
    void answer(model, request, response, waiting).finally(() => (waiting -= 1))
  })
}

async function answer(
  model: SpecialistModel,
  request: IncomingMessage,
  response: ServerResponse,
  waiting: number,
): Promise<void> {
  const [path = ''] = (request.url ?? '').split('?')
  const { task, maxTokens } = model
  if (request.method === 'GET' && path === '/health')
    return send(response, 200, { status: 'ok', task, tasks: [task], max_tokens: maxTokens })
  const work = request.method === 'POST' && Object.hasOwn(ROUTES[task], path) ? ROUTES[task][path] : undefined
  if (!work) {
    return path.startsWith('/infer/')
      ? send(response, 422, error(`These weights serve ${task}, not ${path.slice('/infer/'.length)}.`))
      : send(
          response,
          404,
          error(`There is no ${request.method} ${path} here; use GET /health or POST /infer.`),
        )
  }
  const leaving = new AbortController()
  response.once('close', () => leaving.abort())
  try {
    if (waiting > MAX_WAITING)
      return send(response, 503, error('Too many requests are waiting for this model; try again later.'))
    const bytes = await bodyOf(request, MAX_BODY)
    if (!bytes) return send(response, 413, error(`The body is larger than ${MAX_BODY >> 20} MB.`))
    send(response, 200, await work(model, objectOf(bytes), leaving.signal))
  } catch (err) {
    if (!leaving.signal.aborted) fail(response, err)
  }
}

function objectOf(bytes: Buffer): Body {
  const body: unknown = JSON.parse(bytes.toString())
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Body
  throw new InputProblem('The body must be an object.', '')
}

function fail(response: ServerResponse, err: unknown): void {
  if (err instanceof InputProblem) return send(response, 422, error(err.message, err.path))
  if (err instanceof SyntaxError) return send(response, 400, error(`The body is not JSON: ${err.message}`))
  if (err instanceof BadOutput) return send(response, 500, error(err.message))
  process.stderr.write(`${(err as Error).stack ?? String(err)}\n`)
  send(response, 500, error('The model failed on this request.'))
}

const error = (message: string, path = ''): object => ({ error: { message, ...(path && { path }) } })

main().catch(endWith)
