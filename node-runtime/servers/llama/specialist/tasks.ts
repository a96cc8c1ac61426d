import { setImmediate } from 'node:timers/promises'
import { type Body, countOf, listOf, textOf, textsOf, truncates } from './fields.ts'
import type { SpecialistModel, Tokens } from './model.ts'
import { InputProblem } from './problems.ts'

/** The number of characters to tokenize before other requests get a turn. */
const INLINE_CHARACTERS = 20_000

/** The metadata of a result. */
export interface ResultFacts {
  truncated?: true
  usage: { prompt_tokens: number; total_tokens: number }
}

export interface Embedded extends ResultFacts {
  vectors: number[][]
  isOne: boolean
}

export interface Ranking extends ResultFacts {
  scores: number[]
}

/** Computes vectors for the field `name`; rejects once `signal` is aborted. */
export async function embed(
  model: SpecialistModel,
  body: Body,
  { name, signal }: { name: string; signal: AbortSignal },
): Promise<Embedded> {
  const { texts, isOne } = textsOf(body, name)
  checkDimensions(model, body)
  if (body['prompt_name'] !== undefined && body['prompt_name'] !== null)
    throw new InputProblem("prompt_name must be one of the model's prompts: none", '/prompt_name')
  const path = (index: number) => (isOne ? `/${name}` : `/${name}/${index}`)
  const tokensOf = (text: string) => model.text(text)
  const tokens = await tokenized(model, texts, { tokensOf, path, body, signal })
  const vectors: number[][] = []
  for (const { ids } of tokens) {
    signal.throwIfAborted()
    vectors.push(unit(await model.vector(ids)))
  }
  return { vectors, isOne, ...factsOf(tokens) }
}

/** Scores a request's documents against its query, in document order. */
export async function rank(
  model: SpecialistModel,
  body: Body,
  { signal }: { signal: AbortSignal },
): Promise<Ranking> {
  const query = textOf(body, 'query')
  const documents = listOf(body['documents'], 'documents')
  const path = (index: number) => `/documents/${index}`
  const tokens = await tokenized(model, documents, { tokensOf: model.pairs(query), path, body, signal })
  const scores: number[] = []
  for (const { ids } of tokens) {
    signal.throwIfAborted()
    scores.push(await model.score(ids))
  }
  return { scores, ...factsOf(tokens) }
}

/** Answers the `input` of an embeddings endpoint. */
export async function answerEmbeddings(
  model: SpecialistModel,
  body: Body,
  signal: AbortSignal,
): Promise<object> {
  const { vectors, isOne, ...facts } = await embed(model, body, { name: 'text', signal })
  return { ...(isOne ? { embedding: vectors[0] } : { embeddings: vectors }), ...facts }
}

/** Answers the `input` of a rerank endpoint. */
export async function answerRerank(model: SpecialistModel, body: Body, signal: AbortSignal): Promise<object> {
  const top = countOf(body, 'top_n')
  const { scores, ...facts } = await rank(model, body, { signal })
  const results = best(scores, top).map((index) => ({ index, score: scores[index] }))
  return { scores, ...(top !== undefined && { results }), ...facts }
}

/** Returns the indexes of the best scores, best first. */
export const best = (scores: readonly number[], count?: number): number[] =>
  scores
    .map((_, index) => index)
    .toSorted((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0))
    .slice(0, count)

interface Tokenizing {
  tokensOf: (text: string) => Tokens
  path: (index: number) => string
  body: Body
  signal: AbortSignal
}

async function tokenized(
  { maxTokens }: SpecialistModel,
  texts: readonly string[],
  { tokensOf, path, body, signal }: Tokenizing,
): Promise<Tokens[]> {
  const cuts = truncates(body)
  const found: Tokens[] = []
  let unyielded = 0
  for (const [index, text] of texts.entries()) {
    const tokens = tokensOf(text)
    if (tokens.isCut && !cuts) {
      const inputPath = path(index)
      const name = inputPath.slice(1).replace(/\/(\d+)$/, '[$1]')
      throw new InputProblem(
        `${name} is longer than the ${maxTokens} tokens that this model accepts`,
        inputPath,
      )
    }
    found.push(tokens)
    unyielded += text.length
    if (unyielded < INLINE_CHARACTERS) continue
    unyielded = 0
    await setImmediate()
    signal.throwIfAborted()
  }
  return found
}

/** Rejects dimensions other than the model's: a GGUF can't declare alternatives. */
function checkDimensions(model: SpecialistModel, body: Body): void {
  const dimensions = countOf(body, 'dimensions')
  if (dimensions === undefined || dimensions === model.width) return
  throw new InputProblem(
    `dimensions must be a size that this model supports: only ${model.width}`,
    '/dimensions',
  )
}

/** Returns the vector normalized to length 1; a zero vector is returned unchanged. */
function unit(vector: number[]): number[] {
  const length = Math.hypot(...vector)
  return length > 1e-12 ? vector.map((value) => value / length) : vector
}

function factsOf(tokens: readonly Tokens[]): ResultFacts {
  const total = tokens.reduce((sum, { ids }) => sum + ids.length, 0)
  const usage = { prompt_tokens: total, total_tokens: total }
  return tokens.some(({ isCut }) => isCut) ? { truncated: true, usage } : { usage }
}
