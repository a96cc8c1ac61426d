import { CHAT_PATH, type TokenCounts } from '../../../domain/chat/chat.ts'
import { ApiError } from '../../../domain/errors.ts'
import { BoundedLabel } from '../../../platform/metrics/labels.ts'
import type { Metrics, Recorder } from '../../../platform/metrics/metrics.ts'
import { ClientGoneError } from '../../http/bodies/body.ts'

/** Why a request waits for a model: all slots are in use, or no node has it loaded. */
export type WaitReason = 'slot' | 'load'

/** A request to a model over the OpenAI API that has ended. Times are `performance.now()`. */
export interface EndedCall {
  modelKey: string
  /** The path on the model server. */
  path: string
  beganAt: number
  /** When the first event of a stream arrived; undefined for whole responses. */
  firstAt?: number | undefined
  tokens: TokenCounts
  /** The `error.type`; undefined if it succeeded. */
  failure?: string | undefined
}

/** The `error.type` of a request whose client disconnected. */
export const CLIENT_CLOSED = 'client_closed'

/** Returns the `error.type` of an error. */
export const failureOf = (err: unknown): string =>
  err instanceof ApiError ? err.code : err instanceof ClientGoneError ? CLIENT_CLOSED : 'internal'

/** Models that have their own series. Later ones share the series `other`. */
export const MAX_MODELS = 200

/** The operations of the GenAI conventions; others are named for the last part of their path. */
const OPERATIONS: Readonly<Record<string, string>> = {
  [CHAT_PATH]: 'chat',
  '/v1/completions': 'text_completion',
  '/v1/embeddings': 'embeddings',
}
const operationOf = (path: string): string => OPERATIONS[path] ?? path.slice(path.lastIndexOf('/') + 1)

/** The series of one model and operation. */
interface CallSeries {
  succeeded: Recorder
  failed: Map<string, Recorder>
  input: Recorder
  output: Recorder
  firstToken: Recorder
  perToken: Recorder
}

/** Measures requests to models, under the GenAI conventions. */
export class ModelMetrics {
  readonly #metrics: Metrics
  readonly #models = new BoundedLabel(MAX_MODELS)
  /** By model, then by path. */
  readonly #calls = new Map<string, Map<string, CallSeries>>()

  constructor(metrics: Metrics) {
    this.#metrics = metrics
  }

  /** Records that a request has stopped waiting for a model, whether it got one or not. */
  waited(modelKey: string, reason: WaitReason, ms: number): void {
    if (!this.#metrics.isOn) return
    const attributes = { model: this.#models.of(modelKey), reason }
    this.#metrics.histogram('hearth.model.wait.duration', attributes).record(ms / 1_000)
  }

  ended({ modelKey, path, beganAt, firstAt, tokens, failure }: EndedCall): void {
    if (!this.#metrics.isOn) return
    const now = performance.now()
    const series = this.#seriesOf(modelKey, path)
    const duration = failure === undefined ? series.succeeded : this.#failed(series, modelKey, path, failure)
    duration.record((now - beganAt) / 1_000)
    if (tokens.in > 0) series.input.record(tokens.in)
    if (tokens.out > 0) series.output.record(tokens.out)
    if (firstAt === undefined) return
    series.firstToken.record((firstAt - beganAt) / 1_000)
    if (tokens.out > 1) series.perToken.record((now - firstAt) / 1_000 / (tokens.out - 1))
  }

  #seriesOf(modelKey: string, path: string): CallSeries {
    const model = this.#models.of(modelKey)
    let ofModel = this.#calls.get(model)
    if (!ofModel) this.#calls.set(model, (ofModel = new Map()))
    let series = ofModel.get(path)
    if (!series) ofModel.set(path, (series = this.#create(model, path)))
    return series
  }

  #create(model: string, path: string): CallSeries {
    const attributes = { 'gen_ai.operation.name': operationOf(path), 'gen_ai.request.model': model }
    const usage = (type: string) =>
      this.#metrics.histogram('gen_ai.client.token.usage', { ...attributes, 'gen_ai.token.type': type })
    return {
      succeeded: this.#metrics.histogram('gen_ai.server.request.duration', attributes),
      failed: new Map(),
      input: usage('input'),
      output: usage('output'),
      firstToken: this.#metrics.histogram('gen_ai.server.time_to_first_token', attributes),
      perToken: this.#metrics.histogram('gen_ai.server.time_per_output_token', attributes),
    }
  }

  #failed({ failed }: CallSeries, modelKey: string, path: string, type: string): Recorder {
    let series = failed.get(type)
    if (!series) {
      series = this.#metrics.histogram('gen_ai.server.request.duration', {
        'gen_ai.operation.name': operationOf(path),
        'gen_ai.request.model': this.#models.of(modelKey),
        'error.type': type,
      })
      failed.set(type, series)
    }
    return series
  }
}
