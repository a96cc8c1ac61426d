import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type {
  Binding,
  ChatWrapper,
  GenerateOptions,
  Generated,
  Llama,
  LlamaContext,
  LlamaModel,
  LlamaSequence,
} from './binding.ts'
import { type ChatBody, functionsOf, historyOf, UnusableError } from './chat-request.ts'

/** Beside what is written, some room is kept for what is read. */
const LONGEST_CONTEXT = 8_192

export interface ToolCall {
  name: string
  arguments: string
}

export interface Answer {
  text: string
  calls: ToolCall[]
  finishReason: 'stop' | 'length' | 'tool_calls'
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number }
}

export interface Listener {
  onText: (text: string) => void
  onThought: (text: string) => void
  signal: AbortSignal
}

/** The one GGUF file in a folder, wherever in it; of a split model the first part. */
export function findGguf(folder: string): string {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const files = names.filter((name) => name.endsWith('.gguf')).toSorted()
  const [first] = files
  if (first === undefined) throw new Error('there is no .gguf file')
  return join(folder, first)
}

/** A loaded model with a few conversations at a time, each on a sequence that remembers what it has read. */
export class ChatModel {
  readonly #binding: Binding
  readonly #llama: Llama
  readonly #model: LlamaModel
  readonly #context: LlamaContext
  readonly #wrapper: ChatWrapper
  readonly #free: LlamaSequence[] = []
  readonly #waiting: ((sequence: LlamaSequence) => void)[] = []

  private constructor(
    parts: { binding: Binding; llama: Llama; model: LlamaModel; context: LlamaContext },
    concurrency: number,
  ) {
    this.#binding = parts.binding
    this.#llama = parts.llama
    this.#model = parts.model
    this.#context = parts.context
    // Found out once: it takes longer than a short answer.
    this.#wrapper = parts.binding.resolveChatWrapper(parts.model)
    for (let i = 0; i < concurrency; i++) this.#free.push(parts.context.getSequence())
  }

  static async load(
    binding: Binding,
    { path, threads, concurrency }: { path: string; threads: number; concurrency: number },
  ): Promise<ChatModel> {
    const settings = { build: 'never', maxThreads: threads, progressLogs: false, logLevel: 'error' } as const
    const llama = await binding.getLlama({ gpu: 'auto', ...settings })
    const model = await llama.loadModel({ modelPath: path })
    const contextSize = { max: Math.min(model.trainContextSize, LONGEST_CONTEXT) }
    const context = await model.createContext({ sequences: concurrency, contextSize, threads })
    return new ChatModel({ binding, llama, model, context }, concurrency)
  }

  /** Writes one answer; a caller who leaves ends it within a token. */
  async answer(body: ChatBody, listener: Listener): Promise<Answer> {
    const history = historyOf(body.messages)
    const options = await this.#options(body, listener)
    const sequence = await this.#take()
    try {
      listener.signal.throwIfAborted()
      const chatWrapper = this.#wrapper
      const chat = new this.#binding.LlamaChat({ contextSequence: sequence, chatWrapper })
      const prompt = this.#promptTokens(history)
      const before = sequence.tokenMeter.getState()
      const generated = await chat.generateResponse(history, options)
      const { usedOutputTokens: completion } = sequence.tokenMeter.diff(before)
      return answerOf(generated, prompt, completion)
    } finally {
      this.#give(sequence)
    }
  }

  #promptTokens(history: ReturnType<typeof historyOf>): number {
    const { contextText } = this.#wrapper.generateContextState({ chatHistory: history })
    const count = contextText.tokenize(this.#model.tokenizer).length
    if (count < this.#context.contextSize) return count
    throw new UnusableError(
      `the messages take ${count} tokens; this model reads at most ${this.#context.contextSize}`,
    )
  }

  async #options(body: ChatBody, { onText, onThought, signal }: Listener): Promise<GenerateOptions> {
    if (body.n !== undefined && body.n !== null && body.n !== 1) {
      throw new UnusableError('n must be 1: this model gives one answer')
    }
    const maxTokens = body.max_completion_tokens ?? body.max_tokens ?? undefined
    const stops = typeof body.stop === 'string' ? [body.stop] : body.stop
    const functions = functionsOf(body)
    const grammar = functions ? undefined : await this.#grammar(body.response_format)
    return {
      signal,
      stopOnAbortSignal: false,
      onResponseChunk: ({ type, segmentType, text }) => {
        if (text === '') return
        if (type === undefined) onText(text)
        else if (segmentType === 'thought') onThought(text)
      },
      temperature: body.temperature ?? 1,
      ...(maxTokens !== undefined && { maxTokens }),
      ...(typeof body.top_p === 'number' && { topP: body.top_p }),
      ...(typeof body.top_k === 'number' && { topK: body.top_k }),
      ...(typeof body.seed === 'number' && { seed: Math.abs(body.seed) }),
      ...(stops?.length && { customStopTriggers: stops }),
      ...(grammar !== undefined && { grammar }),
      ...(functions && { functions, documentFunctionParams: true }),
    }
  }

  #grammar(format: ChatBody['response_format']): Promise<unknown> | undefined {
    if (format?.type === 'json_object') return this.#llama.getGrammarFor('json')
    const schema = format?.type === 'json_schema' ? format.json_schema?.schema : undefined
    return schema === undefined ? undefined : this.#llama.createGrammarForJsonSchema(schema)
  }

  #take(): Promise<LlamaSequence> {
    const sequence = this.#free.pop()
    return sequence ? Promise.resolve(sequence) : new Promise((resolve) => this.#waiting.push(resolve))
  }

  #give(sequence: LlamaSequence): void {
    const next = this.#waiting.shift()
    if (next) next(sequence)
    else this.#free.push(sequence)
  }
}

function answerOf(
  { response, functionCalls = [], metadata }: Generated,
  prompt: number,
  completion: number,
): Answer {
  const calls = functionCalls.map(({ functionName, params }) => ({
    name: functionName,
    arguments: JSON.stringify(params ?? {}),
  }))
  const isFull = metadata.stopReason === 'maxTokens'
  return {
    text: response,
    calls,
    finishReason: calls.length > 0 ? 'tool_calls' : isFull ? 'length' : 'stop',
    usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
  }
}
