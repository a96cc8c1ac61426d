import { randomUUID } from 'node:crypto'
import { type Body, countOf, MAX_TEXTS } from './fields.ts'
import type { SpecialistModel } from './model.ts'
import { InputProblem } from './problems.ts'
import { best, embed, type ResultFacts, rank } from './tasks.ts'

/** Handles `POST /v1/embeddings` in the format of OpenAI's clients. */
export async function openaiEmbeddings(
  model: SpecialistModel,
  body: Body,
  signal: AbortSignal,
): Promise<object> {
  const input = inputs(model, body['input'])
  const encode = encodingOf(body['encoding_format'])
  const embedRequest = { input, dimensions: body['dimensions'], ...truncation(body) }
  const { vectors, isOne: _, ...facts } = await embed(model, embedRequest, { name: 'input', signal })
  const data = vectors.map((vector, index) => ({ object: 'embedding', index, embedding: encode(vector) }))
  return { object: 'list', data, ...named(body), ...ordered(facts) }
}

/** Handles `POST /v1/rerank` and `/v2/rerank` in the format of Cohere's and Jina's clients. */
export async function openaiRerank(model: SpecialistModel, body: Body, signal: AbortSignal): Promise<object> {
  const documents = listed(body['documents'], 'documents').map(documentOf)
  const top = countOf(body, 'top_n')
  const rankRequest = { query: body['query'], documents, ...truncation(body) }
  const { scores, ...facts } = await rank(model, rankRequest, { signal })
  const shows = body['return_documents'] === true
  const results = best(scores, top).map((index) => ({
    index,
    relevance_score: scores[index],
    ...(shows && { document: { text: documents[index] } }),
  }))
  return { id: randomUUID(), object: 'list', ...named(body), results, ...ordered(facts) }
}

/** Returns the texts of `input`: one or many, as text, as tokens, or as parts of type `text`. */
function inputs(model: SpecialistModel, value: unknown): string[] {
  if (typeof value === 'string') return [value]
  const parts = listed(value, 'input')
  if (parts.every(isToken)) return [decoded(model, parts, '/input')]
  return parts.map((part, index) => {
    if (typeof part === 'string') return part
    if (Array.isArray(part) && part.length > 0 && part.every(isToken))
      return decoded(model, part, `/input/${index}`)
    if (isRecord(part) && part['type'] === 'text' && typeof part['text'] === 'string') return part['text']
    throw new InputProblem(`input[${index}] must be a string or a list of tokens`, `/input/${index}`)
  })
}

function decoded(model: SpecialistModel, tokens: readonly number[], path: string): string {
  const unknown = model.unknownToken(tokens)
  if (unknown === undefined) return model.decode(tokens)
  throw new InputProblem(
    `input has the token id ${unknown}, which is not in the vocabulary of this model. Send the text itself: clients ` +
      'that tokenize with the vocabulary of another model have a setting for that, such as ' +
      'check_embedding_ctx_length=False in LangChain',
    path,
  )
}

function documentOf(value: unknown, index: number): string {
  const text = isRecord(value) ? value['text'] : value
  if (typeof text === 'string') return text
  throw new InputProblem(
    `documents[${index}] must be a string, or an object with a string in text`,
    `/documents/${index}`,
  )
}

function listed(value: unknown, name: string): unknown[] {
  if (!Array.isArray(value) || value.length === 0)
    throw new InputProblem(`${name} must be a string or a non-empty list`, `/${name}`)
  // A list of tokens is one text.
  if (value.length > MAX_TEXTS && !value.every(isToken))
    throw new InputProblem(`${name} has ${value.length} texts; at most ${MAX_TEXTS} are accepted`, `/${name}`)
  return value
}

function encodingOf(value: unknown): (vector: number[]) => unknown {
  if (value === undefined || value === null || value === 'float') return (vector) => vector
  if (value !== 'base64')
    throw new InputProblem('encoding_format must be float or base64', '/encoding_format')
  return (vector) => {
    const bytes = Buffer.alloc(4 * vector.length)
    for (const [index, number] of vector.entries()) bytes.writeFloatLE(number, 4 * index)
    return bytes.toString('base64')
  }
}

const isToken = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0
const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const truncation = (body: Body): object => ('truncate' in body ? { truncate: body['truncate'] } : {})
const named = ({ model }: Body): object => (typeof model === 'string' ? { model } : {})

/** Puts the usage last, where gateways expect it. */
const ordered = ({ usage, ...facts }: ResultFacts): object => ({ ...facts, usage })
