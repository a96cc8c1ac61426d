import type { Binding, EmbeddingContext, LlamaModel } from '../binding.ts'
import { openGguf } from '../gguf.ts'
import { UnusableWeightsError } from '../unusable-weights.ts'
import { BadOutput } from './problems.ts'

/**
 * The values of `pooling_type` in a GGUF for no pooling and for a reranking head. All others yield one vector per text.
 */
const POOLING_NONE = 0
const POOLING_RANK = 4
/** Architectures whose head returns probabilities instead of logits. */
const SOFTMAX = /^qwen3/
/** The limit for one text, which is computed in a single batch and takes memory quadratic in its length. */
const MAX_TOKENS = 2_048
/**
 * A text is cut to this many characters per token before it is tokenized. If that yields too few tokens, the next cut
 * is `WIDER` times as long.
 */
const CHARACTERS = 16
const WIDER = 8
/** The margin for a text that was cut within a word: its last tokens may differ from those of the whole text. */
const MARGIN = 32

/** The tokens of a text or a pair. */
export interface Tokens {
  ids: readonly number[]
  isCut: boolean
}

/** A GGUF that computes a vector for a text, or a score for a query and a document. */
export class SpecialistModel {
  readonly task: 'embeddings' | 'rerank'
  readonly maxTokens: number
  readonly #model: LlamaModel
  readonly #context: EmbeddingContext
  readonly #template: readonly string[] | undefined

  private constructor(model: LlamaModel, context: EmbeddingContext, task: SpecialistModel['task']) {
    this.task = task
    this.maxTokens = mostTokens(model)
    this.#model = model
    this.#context = context
    this.#template = templateOf(model)
  }

  static async load(
    binding: Binding,
    { folder, threads }: { folder: string; threads: number },
  ): Promise<SpecialistModel> {
    const { llama, model } = await openGguf(binding, { folder, threads })
    const task = taskOf(model)
    if (task instanceof Error) {
      await llama.dispose()
      throw task
    }
    // The library accepts one token less than the context size, and a text must fit into one batch.
    const size = mostTokens(model) + 1
    const context = await model.createEmbeddingContext({ contextSize: size, batchSize: size, threads })
    return new SpecialistModel(model, context, task)
  }

  /** Returns the tokens of a text, truncated to `maxTokens`. */
  text(text: string): Tokens {
    const [first, last] = this.#ends()
    const { ids, isCut } = this.#ids(text, this.maxTokens - first.length - last.length)
    return { ids: [...first, ...ids, ...last], isCut }
  }

  /**
   * Returns a function that yields the tokens of the query and a document. The longer of the two is truncated first.
   */
  pairs(query: string): (document: string) => Tokens {
    const [before, between, after] = this.#frame()
    const room = this.maxTokens - before.length - between.length - after.length
    const queryTokens = this.#ids(query, room)
    return (document) => {
      const read = this.#ids(document, room)
      const [left, right] = shares(queryTokens.ids.length, read.ids.length, room)
      return {
        ids: [
          ...before,
          ...queryTokens.ids.slice(0, left),
          ...between,
          ...read.ids.slice(0, right),
          ...after,
        ],
        isCut: queryTokens.isCut || read.isCut || left < queryTokens.ids.length || right < read.ids.length,
      }
    }
  }

  /** The length of the vectors. */
  get width(): number {
    return this.#model.embeddingVectorSize
  }

  /** Returns the vector of a text, or throws `BadOutput`. */
  async vector(ids: readonly number[]): Promise<number[]> {
    return this.#numbers(ids, this.width)
  }

  /** Returns the score of a pair, from 0 to 1, or throws `BadOutput`. */
  async score(ids: readonly number[]): Promise<number> {
    const isProbability = SOFTMAX.test(this.#model.fileInfo.metadata.general.architecture)
    const [number = Number.NaN] = await this.#numbers(ids, isProbability ? undefined : 1)
    return isProbability ? number : 1 / (1 + Math.exp(-number))
  }

  /** Returns the first id that isn't a token of this model. */
  unknownToken(ids: readonly number[]): number | undefined {
    const count = this.#model.fileInfo.metadata.tokenizer?.ggml?.tokens?.length ?? 0
    return ids.find((id) => id >= count)
  }

  /** Decodes tokens of this model. */
  decode(ids: readonly number[]): string {
    return this.#model.detokenize(ids)
  }

  async #numbers(ids: readonly number[], width: number | undefined): Promise<number[]> {
    const { vector } = await this.#context.getEmbeddingFor(ids.length > 0 ? ids : [0])
    if (vector.length === 0 || (width !== undefined && vector.length !== width))
      throw new BadOutput(`The model returned ${vector.length} numbers instead of ${width}.`)
    if (!vector.every(Number.isFinite)) throw new BadOutput('The model returned numbers that are not finite.')
    return [...vector]
  }

  #ids(text: string, most: number): { ids: number[]; isCut: boolean } {
    for (let window = CHARACTERS * this.maxTokens; ; window *= WIDER) {
      const ids = this.#tokenize(text.slice(0, window))
      if (window >= text.length) return { ids: ids.slice(0, most), isCut: ids.length > most }
      if (ids.length >= most + MARGIN) return { ids: ids.slice(0, most), isCut: true }
    }
  }

  #tokenize(text: string, hasSpecial = false): number[] {
    return this.#model.tokenizer(text, hasSpecial) as number[]
  }

  /** Returns the tokens before and after a text. */
  #ends(): [number[], number[]] {
    const { bos, eos, sep, shouldPrependBosToken, shouldAppendEosToken } = this.#model.tokens
    if (this.#model.vocabularyType === 'wpm') return [listed(bos), listed(sep)]
    return [listed(shouldPrependBosToken ? bos : null), listed(shouldAppendEosToken ? eos : null)]
  }

  /** Returns the tokens around a query and a document, from the file's template or its vocabulary. */
  #frame(): [number[], number[], number[]] {
    if (this.#template) {
      const [before = '', between = '', after = ''] = this.#template
      return [this.#tokenize(before, true), this.#tokenize(between, true), this.#tokenize(after, true)]
    }
    const { bos, eos, sep } = this.#model.tokens
    // BERT has one token between the texts; XLM-RoBERTa has two.
    if (this.#model.vocabularyType === 'wpm') return [listed(bos), listed(sep), listed(sep)]
    return [listed(bos), [...listed(eos), ...listed(sep ?? eos)], listed(eos)]
  }
}

const listed = (token: number | null): number[] => (token === null ? [] : [token])

const mostTokens = ({ trainContextSize }: LlamaModel): number => Math.min(trainContextSize, MAX_TOKENS)

/** Returns the task of the weights, or the reason why they have none. */
function taskOf({ fileInfo }: LlamaModel): 'embeddings' | 'rerank' | UnusableWeightsError {
  const { pooling_type = POOLING_NONE, classifier } = fileInfo.architectureMetadata ?? {}
  const { architecture } = fileInfo.metadata.general
  if (pooling_type === POOLING_NONE)
    return new UnusableWeightsError(
      `the GGUF (${architecture}) declares no pooling, so it serves neither embeddings nor rerank`,
    )
  if (pooling_type !== POOLING_RANK) return 'embeddings'
  const labels = classifier?.output_labels?.length ?? 1
  if (labels === 1 || SOFTMAX.test(architecture)) return 'rerank'
  return new UnusableWeightsError(
    `the GGUF (${architecture}) has ${labels} labels; a reranker must have exactly one`,
  )
}

/** Returns the texts around the query and the document in a reranker's template, if it has one. */
function templateOf({ fileInfo }: LlamaModel): readonly string[] | undefined {
  const template = fileInfo.metadata.tokenizer?.['chat_template.rerank']
  if (typeof template !== 'string') return undefined
  const parts = template.split(/\{\{?(?:query|document)\}?\}/)
  const isInOrder = template.indexOf('query}') < template.indexOf('document}')
  return parts.length === 3 && isInOrder ? parts : undefined
}

/** Returns the lengths to which to truncate two texts. Keeps the shorter one whole if possible, like Hugging Face. */
function shares(first: number, second: number, room: number): [number, number] {
  if (first + second <= room) return [first, second]
  const [shorter, longer] = first <= second ? [first, second] : [second, first]
  const kept = Math.min(shorter, Math.floor(room / 2))
  const rest = Math.min(longer, room - kept)
  return first <= second ? [kept, rest] : [rest, kept]
}
