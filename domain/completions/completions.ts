import type { CreateCompletion } from '../../schemas/openai/completions.ts'

const MAX_TOKENS = 16

/** Fields of a completion that don't exist in a chat. */
const OWN = new Set(['prompt', 'echo', 'best_of', 'logprobs', 'suffix', 'n'])

/**
 * Returns the chat request for a completion request. The prompt becomes a user message, so the model's chat template
 * applies.
 */
export function chatOfCompletion(request: CreateCompletion): Record<string, unknown> {
  const rest = Object.fromEntries(Object.entries(request).filter(([name]) => !OWN.has(name)))
  return {
    ...rest,
    messages: [{ role: 'user', content: promptOf(request) }],
    max_tokens: request.max_tokens ?? MAX_TOKENS,
  }
}

const promptOf = ({ prompt }: CreateCompletion): string =>
  typeof prompt === 'string' ? prompt : (prompt[0] ?? '')

interface Facts {
  taskId: string
  createdAt: Date
}

interface ChatChoices {
  choices?: readonly {
    message?: { content?: unknown }
    delta?: { content?: unknown } | null
    finish_reason?: unknown
  }[]
  usage?: object | null
}

/** Converts a chat response, whole or in chunks, into a completion. */
export class CompletionBuilder {
  readonly #frame: object
  /** The text at the start of the answer. */
  #echo: string

  constructor(request: CreateCompletion, { taskId, createdAt }: Facts) {
    const created = Math.floor(createdAt.getTime() / 1_000)
    this.#frame = { id: `cmpl-${taskId}`, object: 'text_completion', created, model: request.model }
    this.#echo = request.echo ? promptOf(request) : ''
  }

  fromCompletion({ choices = [], usage }: ChatChoices): object {
    const { message, finish_reason } = choices[0] ?? {}
    return this.#build(message?.content, finish_reason, usage)
  }

  begin(): string {
    return ''
  }

  /** The usage arrives in a chunk without choices. */
  take({ choices = [], usage }: ChatChoices): string {
    const [choice] = choices
    if (!choice) return usage ? event({ ...this.#frame, choices: [], usage }) : ''
    const { delta, finish_reason } = choice
    if (!delta?.content && !finish_reason) return ''
    return event(this.#build(delta?.content, finish_reason))
  }

  end(): string {
    return 'data: [DONE]\n\n'
  }

  fail(error: { code: string; message: string }): string {
    return event({ error: { ...error, type: 'server_error', param: null } }) + this.end()
  }

  #build(content: unknown, finishReason: unknown, usage?: object | null): object {
    const text = this.#echo + (typeof content === 'string' ? content : '')
    this.#echo = ''
    const choice = { text, index: 0, logprobs: null, finish_reason: finishReason ?? null }
    return { ...this.#frame, choices: [choice], ...(usage && { usage }) }
  }
}

const event = (data: object): string => `data: ${JSON.stringify(data)}\n\n`
