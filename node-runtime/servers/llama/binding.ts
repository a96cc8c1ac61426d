import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * The part of node-llama-cpp that we use. The package is not a dependency of this repository: a node installs it when
 * it serves its first GGUF.
 */
export interface Llama {
  loadModel(options: { modelPath: string; gpuLayers?: number | 'max' }): Promise<LlamaModel>
  createGrammarForJsonSchema(schema: unknown): Promise<unknown>
  getGrammarFor(kind: 'json'): Promise<unknown>
  dispose(): Promise<void>
}

export interface LlamaModel {
  readonly trainContextSize: number
  /** The number of layers on a GPU. */
  readonly gpuLayers: number
  readonly tokenizer: Tokenize
  /** `wpm` for BERT vocabularies. */
  readonly vocabularyType: string
  readonly tokens: SpecialTokens
  readonly embeddingVectorSize: number
  readonly fileInfo: {
    metadata: {
      general: { architecture: string }
      tokenizer?: { 'chat_template.rerank'?: unknown; ggml?: { tokens?: readonly string[] } }
    }
    /** The settings under the architecture's name. */
    architectureMetadata?: {
      pooling_type?: number
      classifier?: { output_labels?: readonly string[] }
    }
  }
  readonly fileInsights: {
    /** Returns the bytes that a context needs, as llama.cpp itself would allocate them. */
    estimateContextResourceRequirementsV2(needs: ContextNeeds): Promise<{ cpuRam: number; gpuVram: number }>
  }
  detokenize(tokens: readonly number[]): string
  createContext(options: {
    sequences: number
    contextSize: number | { min: number; max: number }
    threads: number
  }): Promise<LlamaContext>
  createEmbeddingContext(options: {
    contextSize: number
    batchSize: number
    threads: number
  }): Promise<EmbeddingContext>
}

export interface ContextNeeds {
  /** The tokens of each sequence. */
  contextSize: number
  sequences: number
  modelGpuLayers: number
  flashAttention: 'auto'
}

/** The tokens that mark where a text begins and ends; null if a vocabulary has none. */
export interface SpecialTokens {
  readonly bos: number | null
  readonly eos: number | null
  readonly sep: number | null
  readonly shouldPrependBosToken: boolean
  readonly shouldAppendEosToken: boolean
}

export interface EmbeddingContext {
  /** Returns the pooled output for tokens; for a ranking head, its logits. */
  getEmbeddingFor(tokens: readonly number[]): Promise<{ vector: readonly number[] }>
}

export interface LlamaContext {
  readonly contextSize: number
  getSequence(): LlamaSequence
}

export interface LlamaSequence {
  readonly nextTokenIndex: number
  /** True if the context can't be partially rolled back, as in recurrent models. */
  readonly needsCheckpoints: boolean
  clearHistory(): Promise<void>
  /** Keeps the common prefix of the context and these tokens. */
  adaptStateToTokens(tokens: readonly number[], allowShift: boolean): Promise<void>
  evaluateWithoutGeneratingNewTokens(tokens: readonly number[]): Promise<void>
  saveStateToFile(path: string): Promise<{ fileSize: number }>
  loadStateFromFile(path: string, acceptRisk: { acceptRisk: true }): Promise<void>
  readonly tokenMeter: {
    getState(): unknown
    diff(since: unknown): { usedInputTokens: number; usedOutputTokens: number }
  }
}

export type HistoryItem =
  | { type: 'system' | 'user'; text: string }
  | { type: 'model'; response: (string | FunctionCallItem)[] }

export interface FunctionCallItem {
  type: 'functionCall'
  name: string
  params: unknown
  result: unknown
}

export interface GenerateOptions {
  onResponseChunk: (chunk: { type: 'segment' | undefined; segmentType?: string; text: string }) => void
  signal: AbortSignal
  stopOnAbortSignal: boolean
  maxTokens?: number
  temperature?: number
  topP?: number
  topK?: number
  seed?: number
  grammar?: unknown
  repeatPenalty?: false | RepeatPenalty
  functions?: Record<string, { description?: string; params?: unknown }>
  documentFunctionParams?: boolean
  maxParallelFunctionCalls?: number
  onFunctionCallParamsChunk?: (chunk: FunctionCallChunk) => void
  onFunctionCall?: (call: { functionName: string }) => void
}

export interface RepeatPenalty {
  /** 1 disables the library's own repetition penalty. */
  penalty: number
  lastTokens: number
  presencePenalty: number
  frequencyPenalty: number
}

export interface FunctionCallChunk {
  callIndex: number
  functionName: string
  paramsChunk: string
  done: boolean
}

export interface GenerationResult {
  response: string
  metadata: { stopReason: string }
}

export interface ContextOptions {
  chatHistory: HistoryItem[]
  availableFunctions?: GenerateOptions['functions']
  documentFunctionParams?: boolean
}

export type Tokenize = (text: string, specialTokens?: boolean) => number[]

/** A prompt: pieces of text with special tokens between them. */
export interface ContextText {
  readonly values: readonly unknown[]
  tokenize(tokenizer: Tokenize): number[]
}

export interface ContextState {
  contextText: ContextText
  stopGenerationTriggers: unknown[]
  /** Specifies whether the response begins with a call, and lists the strings it may begin with instead. */
  functionCall?: { initiallyEngaged: boolean; disengageInitiallyEngaged: unknown[] }
}

/** The chat template of a model, as the library wraps it. */
export interface ChatWrapper {
  generateContextState(options: ContextOptions): ContextState
}

export interface LlamaChat {
  generateResponse(history: HistoryItem[], options: GenerateOptions): Promise<GenerationResult>
}

export interface Binding {
  getLlama(options: {
    gpu: 'auto' | 'cuda' | false
    build: 'never'
    maxThreads: number
    progressLogs: false
    logLevel: 'error'
    logger: (level: string, text: string) => void
  }): Promise<Llama>
  LlamaChat: new (options: { contextSequence: LlamaSequence; chatWrapper: ChatWrapper }) => LlamaChat
  resolveChatWrapper(model: LlamaModel): ChatWrapper
}

/** Imports the package from the folder in which it is installed. */
export async function loadBinding(packages: string): Promise<Binding> {
  const path = createRequire(join(packages, 'package.json')).resolve('node-llama-cpp')
  return (await import(pathToFileURL(path).href)) as Binding
}
