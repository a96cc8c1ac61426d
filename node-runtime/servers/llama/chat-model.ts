import { type FileHandle, rm } from 'node:fs/promises'
import { AnswerText } from './answer-text.ts'
import type {
  Binding,
  ChatWrapper,
  ContextOptions,
  ContextText,
  GenerateOptions,
  GenerationResult,
  HistoryItem,
  Llama,
  LlamaContext,
  LlamaModel,
  LlamaSequence,
} from './binding.ts'
import { type CallFragment, CallStream, type ToolCall } from './call-stream.ts'
import type { ChatRequest, PrefillRequest } from './chat-request.ts'
import {
  checkStateSize,
  type ReadState,
  measureStates,
  type StateSize,
  tokensOfState,
} from './context-state.ts'
import { BadPayloadError } from './exchange.ts'
import { type ContextPlan, type ContextWish, planContext } from './fit-context.ts'
import { openGguf } from './gguf.ts'
import type { GrammarSchema } from './grammar-schema.ts'
import { ANY_ARGUMENTS, type ModelFunction, type Output } from './output.ts'
import { OUTPUT_TOKENS, promptTokens } from './prompt-length.ts'
import { resolveInTime } from './template-time.ts'
import { UnusableError } from './unusable-error.ts'

/** A context that llama.cpp shortens further, for lack of memory, is useless. */
const MIN_CONTEXT = 512

export interface Answer {
  text: string
  calls: ToolCall[]
  finishReason: 'stop' | 'length' | 'tool_calls'
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number }
}

export interface Listener {
  onText: (text: string) => void
  onThought: (text: string) => void
  onCall: (fragment: CallFragment) => void
  signal: AbortSignal
}

/** A loaded model that serves a few conversations at a time, each on its own sequence with a prompt cache. */
export class ChatModel {
  readonly #binding: Binding
  readonly #llama: Llama
  readonly #model: LlamaModel
  readonly #wrapper: ChatWrapper
  readonly #free: LlamaSequence[] = []
  /** The context of each sequence. */
  readonly plan: ContextPlan
  /** The requests in progress, including those waiting for a sequence. */
  inFlight = 0
  readonly #waiting: ((sequence: LlamaSequence) => void)[] = []
  #stateSize: Promise<StateSize | undefined> | undefined

  private constructor(
    parts: { binding: Binding; llama: Llama; model: LlamaModel; context: LlamaContext },
    plan: ContextPlan,
  ) {
    this.plan = plan
    this.#binding = parts.binding
    this.#llama = parts.llama
    this.#model = parts.model
    // Resolving takes longer than a short response, so we do it only once.
    this.#wrapper = resolveInTime(() => parts.binding.resolveChatWrapper(parts.model))
    for (let i = 0; i < plan.sequences; i++) this.#free.push(parts.context.getSequence())
  }

  static async load(
    binding: Binding,
    { folder, threads, gpu, ...wish }: { folder: string; threads: number; gpu: string } & ContextWish,
  ): Promise<ChatModel> {
    const { llama, model } = await openGguf(binding, { folder, threads, gpu })
    const plan = await planContext(model, wish)
    const { sequences, length, limit } = plan
    // The machine may have less memory than the node reserved. A length from the settings must not shrink.
    const contextSize = limit === 'setting' ? length : { min: Math.min(length, MIN_CONTEXT), max: length }
    const context = await model.createContext({ sequences, contextSize, threads })
    const isShorter = context.contextSize < length
    const actual: ContextPlan = { ...plan, length: context.contextSize, limit: 'memory' }
    return new ChatModel({ binding, llama, model, context }, isShorter ? actual : plan)
  }

  /**
   * Generates one response, which ends within a token if the caller disconnects. If there is a state, its tokens are
   * the prompt instead of the request's history.
   */
  async answer(request: ChatRequest, listener: Listener, state?: ReadState): Promise<Answer> {
    this.inFlight += 1
    try {
      return await this.#answer(request, listener, state)
    } finally {
      this.inFlight -= 1
    }
  }

  /** Evaluates a prompt and writes the resulting state of the context to a file. */
  async prefill(
    { prompt, history, output }: PrefillRequest,
    path: string,
    signal: AbortSignal,
  ): Promise<{ sizeBytes: number; tokens: number }> {
    this.inFlight += 1
    const sequence = await this.#take()
    try {
      const contextText =
        prompt === undefined ? this.#contextText(history, output.functions) : this.#bareText(prompt)
      const tokens = await this.#tokensOf(contextText, signal)
      await sequence.adaptStateToTokens(tokens, false)
      const fresh = tokens.slice(sequence.nextTokenIndex)
      if (fresh.length > 0) await sequence.evaluateWithoutGeneratingNewTokens(fresh)
      signal.throwIfAborted()
      const { fileSize } = await sequence.saveStateToFile(path)
      return { sizeBytes: fileSize, tokens: tokens.length }
    } catch (err) {
      await rm(path, { force: true })
      throw err
    } finally {
      this.#give(sequence)
      this.inFlight -= 1
    }
  }

  /** Returns the tokens of a state with a verified digest; throws unless this model could have written the state. */
  async checkState(file: FileHandle, draft: string): Promise<number[]> {
    const vocabularySize = this.#model.fileInfo.metadata.tokenizer?.ggml?.tokens?.length ?? Infinity
    const tokens = await tokensOfState(file, { contextSize: this.plan.length, vocabularySize })
    this.#stateSize ??= this.#measureStates(draft)
    const size = await this.#stateSize.catch((err: unknown) => {
      this.#stateSize = undefined
      throw err
    })
    if (size) checkStateSize(size, tokens.length, (await file.stat()).size)
    return tokens
  }

  async #measureStates(draft: string): Promise<StateSize | undefined> {
    const sequence = await this.#take()
    try {
      return await measureStates(sequence, { token: this.#model.tokens.eos ?? 0, draft })
    } finally {
      this.#give(sequence)
    }
  }

  async #answer(
    { history, output, sampling, stops }: ChatRequest,
    listener: Listener,
    state: ReadState | undefined,
  ): Promise<Answer> {
    const calls = new CallStream(listener.onCall)
    const text = new AnswerText(calls, {
      stops,
      names: output.isForced ? [] : Object.keys(output.functions ?? {}),
      isOneCall: output.isOneCall,
      onText: listener.onText,
    })
    const functions = await this.#usable(output.functions)
    const form = { ...output, ...(functions && { functions }) }
    const options = await this.#options({ output: form, sampling, text }, listener, calls)
    const chatWrapper = state ? continuing(this.#wrapper, state.tokens) : this.#wrapperFor(output, functions)
    const sequence = await this.#take()
    try {
      listener.signal.throwIfAborted()
      if (state) await loadState(sequence, state)
      const chat = new this.#binding.LlamaChat({ contextSequence: sequence, chatWrapper })
      const prompt = state?.tokens.length ?? (await this.#promptTokens(history, functions, listener))
      const before = sequence.tokenMeter.getState()
      // Beyond the context, the library would silently drop the beginning of the conversation.
      const most = this.plan.length - OUTPUT_TOKENS + 1 - prompt
      const maxTokens = Math.min(options.maxTokens ?? most, most)
      const generated = await chat.generateResponse(history, { ...options, maxTokens })
      listener.signal.throwIfAborted()
      text.end()
      const { usedOutputTokens: completion } = sequence.tokenMeter.diff(before)
      return {
        text: text.text,
        calls: calls.calls,
        finishReason: finishOf(generated, calls),
        usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
      }
    } finally {
      // The prompt cache must not reuse a state that another node has computed for other prompts.
      if (state) await sequence.clearHistory()
      this.#give(sequence)
    }
  }

  #wrapperFor({ isForced, json }: Output, functions: Output['functions']): ChatWrapper {
    if (isForced) return callingAtOnce(this.#wrapper)
    return functions && json !== undefined ? describing(this.#wrapper, functions) : this.#wrapper
  }

  async #promptTokens(
    history: HistoryItem[],
    functions: Output['functions'],
    { signal }: Listener,
  ): Promise<number> {
    const text = this.#contextText(history, functions)
    const tokens = await this.#tokensOf(text, signal)
    return tokens.length
  }

  #contextText(chatHistory: HistoryItem[], functions: GenerateOptions['functions']): ContextText {
    const described = functions && { availableFunctions: functions, documentFunctionParams: true }
    return this.#wrapper.generateContextState({ chatHistory, ...described }).contextText
  }

  #bareText(prompt: string): ContextText {
    const { bos, shouldPrependBosToken } = this.#model.tokens
    const first = shouldPrependBosToken && bos !== null ? [bos] : []
    return { values: [prompt], tokenize: (tokenize) => [...first, ...tokenize(prompt)] }
  }

  #tokensOf(contextText: ContextText, signal: AbortSignal): Promise<number[]> {
    return promptTokens(contextText, { tokenize: this.#model.tokenizer, context: this.plan, signal })
  }

  async #options(
    { output, sampling, text: answer }: Pick<ChatRequest, 'output' | 'sampling'> & { text: AnswerText },
    { onThought, signal }: Listener,
    calls: CallStream,
  ): Promise<GenerateOptions> {
    // The library's stop sequences would lose preceding text in the same token.
    const stopping = new AbortController()
    const { functions } = output
    const grammar = await this.#grammar(output)
    const { presencePenalty, frequencyPenalty, ...chosen } = sampling
    const isPenalized = presencePenalty !== 0 || frequencyPenalty !== 0
    return {
      ...chosen,
      signal: AbortSignal.any([signal, stopping.signal]),
      stopOnAbortSignal: true,
      onResponseChunk: ({ type, segmentType, text }) => {
        if (text === '') return
        if (type === undefined) {
          answer.add(text)
          if (answer.isStopped) stopping.abort()
        } else if (segmentType === 'thought') onThought(text)
      },
      // By default the library penalizes repetition; OpenAI's API does so only on request.
      repeatPenalty: isPenalized && {
        penalty: 1,
        lastTokens: this.plan.length,
        presencePenalty,
        frequencyPenalty,
      },
      ...(grammar !== undefined && { grammar }),
      // A grammar constrains the whole text, so calls are part of the text, and `AnswerText` parses them.
      ...(functions &&
        grammar === undefined && {
          functions,
          documentFunctionParams: true,
          ...(output.isOneCall && { maxParallelFunctionCalls: 1 }),
          onFunctionCallParamsChunk: (chunk) => calls.add(chunk),
          onFunctionCall: ({ functionName }) => calls.end(functionName),
        }),
    }
  }

  /**
   * Compiles the parameters of each function, because the library only compiles them when a call begins, which is too
   * late to reject the request. Parameters that are too large accept any object, unless the request is strict.
   */
  async #usable(functions: Output['functions']): Promise<Output['functions']> {
    const checked: [string, ModelFunction][] = []
    for (const [name, one] of Object.entries(functions ?? {})) {
      const what = `the parameters of ${name} in tools`
      const compiled = one.params && this.#compiled(one.params, 'tools', what)
      const isUsable = await Promise.resolve(compiled).then(
        () => true,
        (err: unknown) => {
          if (one.isStrict) throw err
          return false
        },
      )
      checked.push([name, isUsable ? one : { ...one, params: ANY_ARGUMENTS }])
    }
    return functions && Object.fromEntries(checked)
  }

  async #grammar({ json, functions }: Output): Promise<unknown> {
    if (json === undefined) return undefined
    if (json === 'object') return this.#llama.getGrammarFor('json')
    const schema = functions ? { oneOf: [json, ...callSchemas(functions)] } : json
    return this.#compiled(schema, 'response_format.json_schema.schema')
  }

  async #compiled(schema: GrammarSchema, field: string, what = field): Promise<unknown> {
    try {
      return await this.#llama.createGrammarForJsonSchema(schema)
    } catch {
      // The library prints the reason to standard error; usually a length or a count exceeds its limits.
      throw new UnusableError(`${what} cannot be used: it is too large for a grammar of llama.cpp`, field)
    }
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

/** Returns the same template, except that the response must begin as a call. */
function callingAtOnce(wrapper: ChatWrapper): ChatWrapper {
  return Object.create(wrapper, {
    generateContextState: {
      value: (options: ContextOptions) => {
        const { contextText, stopGenerationTriggers } = wrapper.generateContextState(options)
        const functionCall = { initiallyEngaged: true, disengageInitiallyEngaged: [] }
        return { contextText, stopGenerationTriggers, functionCall }
      },
    },
  }) as ChatWrapper
}

/** Returns the same template, except that it always describes these functions to the model. */
function describing(wrapper: ChatWrapper, functions: Record<string, ModelFunction>): ChatWrapper {
  const described = { availableFunctions: functions, documentFunctionParams: true }
  return Object.create(wrapper, {
    generateContextState: {
      value: (options: ContextOptions) => wrapper.generateContextState({ ...options, ...described }),
    },
  }) as ChatWrapper
}

/** Returns the schemas of calls as text, in the form that `BareCalls` parses. */
function callSchemas(functions: Record<string, ModelFunction>): GrammarSchema[] {
  return Object.entries(functions).map(([name, { params = { type: 'object', properties: {} } }]) => ({
    type: 'object',
    properties: { name: { const: name }, arguments: params },
  }))
}

/** Returns the same template, except that these tokens are the prompt. */
function continuing(wrapper: ChatWrapper, tokens: readonly number[]): ChatWrapper {
  const contextText: ContextText = { values: [], tokenize: () => [...tokens] }
  return Object.create(wrapper, {
    generateContextState: {
      value: (options: ContextOptions) => ({ ...wrapper.generateContextState(options), contextText }),
    },
  }) as ChatWrapper
}

async function loadState(sequence: LlamaSequence, { path, tokens }: ReadState): Promise<void> {
  await sequence.loadStateFromFile(path, { acceptRisk: true }).catch((err: unknown) => {
    process.stderr.write(`${String(err)}\n`)
    throw new BadPayloadError('shape_mismatch', 'llama.cpp cannot load the payload for this model')
  })
  if (sequence.nextTokenIndex !== tokens.length) {
    throw new BadPayloadError(
      'shape_mismatch',
      'the number of tokens in the payload does not match its header',
    )
  }
}

/** Returns the finish reason. It must not be `tool_calls` for a truncated call, which would look complete. */
function finishOf({ metadata }: GenerationResult, { calls, isInCall }: CallStream): Answer['finishReason'] {
  if (calls.length > 0 && !isInCall) return 'tool_calls'
  return metadata.stopReason === 'maxTokens' ? 'length' : 'stop'
}
