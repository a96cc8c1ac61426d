import { memberFinder, replaceAt } from '../../platform/json-bytes.ts'

const modelIn = memberFinder('model')

/**
 * Lets callers use any name for a model server that accepts only one: puts the server's name into the request, and the
 * caller's name into the response. Responses of such a server are JSON without spaces and with escaped quotes in text,
 * so a byte comparison suffices and we needn't parse them.
 */
export class ServedName {
  readonly #served: Buffer
  readonly #servedName: Buffer
  #called: Buffer | undefined
  #held: Buffer = Buffer.alloc(0)

  constructor(served: string) {
    this.#served = Buffer.from(JSON.stringify(served))
    this.#servedName = Buffer.from(`"model":${JSON.stringify(served)}`)
  }

  /** Returns the request for the server. A request without a model is unchanged. */
  request(body: Buffer): Buffer {
    const modelSpan = modelIn(body)
    if (!modelSpan) return body
    this.#called = Buffer.concat([Buffer.from('"model":'), body.subarray(modelSpan.start, modelSpan.end)])
    return replaceAt(body, modelSpan, this.#served)
  }

  /** Returns the finished part of a response; holds back trailing bytes that may be the start of a name. */
  answer(chunk: Buffer): Buffer {
    const called = this.#called
    if (!called) return chunk
    const bytes = this.#held.length > 0 ? Buffer.concat([this.#held, chunk]) : chunk
    const parts: Buffer[] = []
    let from = 0
    for (let at = bytes.indexOf(this.#servedName); at !== -1; at = bytes.indexOf(this.#servedName, from)) {
      parts.push(bytes.subarray(from, at), called)
      from = at + this.#servedName.length
    }
    const end = bytes.length - this.#openEnd(bytes.subarray(from))
    this.#held = bytes.subarray(end)
    parts.push(bytes.subarray(from, end))
    return Buffer.concat(parts)
  }

  /** Returns the held-back bytes once the response has ended. */
  rest(): Buffer {
    return this.#held
  }

  #openEnd(bytes: Buffer): number {
    for (let length = Math.min(this.#servedName.length - 1, bytes.length); length > 0; length--) {
      if (bytes.subarray(-length).equals(this.#servedName.subarray(0, length))) return length
    }
    return 0
  }
}
