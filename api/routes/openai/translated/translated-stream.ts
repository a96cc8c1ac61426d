import { StringDecoder } from 'node:string_decoder'
import type { ApiError } from '../../../../domain/errors.ts'
import type { ChatChunk } from '../../../../domain/responses/events.ts'
import { dataOf } from '../calls/event-data.ts'
import type { SseClient, StreamClient } from '../chat-completions/sse-client.ts'

/** Converts the chunks of a streamed chat to another route's events; each method returns complete events. */
export interface EventTranslator {
  begin(): string
  take(chunk: ChatChunk): string
  end(): string
  fail(error: { code: string; message: string }): string
}

const BLANK_LINE = /\r?\n\r?\n/

/** The client of a route whose events are derived from those of a chat. */
export class TranslatedStream implements StreamClient {
  readonly #client: SseClient
  readonly #translator: EventTranslator
  readonly #decoder = new StringDecoder('utf8')
  /** The beginning of an event that is not complete yet. */
  #rest = ''
  #hasBegun = false
  #hasFailed = false

  constructor(client: SseClient, translator: EventTranslator) {
    this.#client = client
    this.#translator = translator
  }

  get hasHead(): boolean {
    return this.#client.hasHead
  }

  keepAlive(): void {
    this.#client.keepAlive()
  }

  stopKeepAlive(): void {
    this.#client.stopKeepAlive()
  }

  write(events: Buffer, onDrain: () => void): boolean {
    const texts = (this.#rest + this.#decoder.write(events)).split(BLANK_LINE)
    this.#rest = texts.pop() ?? ''
    return this.#send(() => texts.map((text) => this.#translate(text)).join(''), onDrain)
  }

  end(): void {
    if (!this.#hasFailed) this.#send(() => this.#translator.end())
    this.#client.end({ saidDone: true })
  }

  fail({ code, message }: ApiError): void {
    this.#send(() => this.#failure({ code, message }))
    this.#client.end({ saidDone: true })
  }

  [Symbol.dispose](): void {
    this.#client[Symbol.dispose]()
  }

  /** Sends the result of `translate`, preceded by the opening events if they have not been sent yet. */
  #send(translate: () => string, onDrain: () => void = () => {}): boolean {
    const begun = this.#hasBegun ? '' : this.#translator.begin()
    this.#hasBegun = true
    const all = begun + translate()
    return all === '' || this.#client.write(Buffer.from(all), onDrain)
  }

  #translate(text: string): string {
    const chunk = chunkIn(text)
    if (!chunk || this.#hasFailed) return ''
    if (!chunk.error) return this.#translator.take(chunk)
    const { message } = chunk.error
    return this.#failure({
      code: 'internal',
      message: typeof message === 'string' ? message : 'the model failed',
    })
  }

  #failure(error: { code: string; message: string }): string {
    if (this.#hasFailed) return ''
    this.#hasFailed = true
    return this.#translator.fail(error)
  }
}

/** Returns the chunk of an event; undefined for comments, `[DONE]` and data that is not a JSON object. */
function chunkIn(event: string): (ChatChunk & { error?: { message?: unknown } }) | undefined {
  const data = dataOf(event)
  if (!data?.trimStart().startsWith('{')) return undefined
  try {
    return JSON.parse(data) as ChatChunk
  } catch {
    return undefined
  }
}
