import { memberFinder, replaceAt } from '../../platform/json-bytes.ts'

const modelIn = memberFinder('model')

/**
 * Lets a model server that knows its model by one name only be asked under any: puts that name into a request, and the
 * caller's name into what is answered. Answers of such a server are JSON without spaces; text inside of them that looks
 * like a name has its quotes escaped, so bytes are compared and nothing is parsed.
 */
export class ServedName {
  readonly #served: Buffer
  readonly #told: Buffer
  #called: Buffer | undefined
  #held: Buffer = Buffer.alloc(0)

  constructor(served: string) {
    this.#served = Buffer.from(JSON.stringify(served))
    this.#told = Buffer.from(`"model":${JSON.stringify(served)}`)
  }

  /** The request as the server takes it. One that names no model stays as it is. */
  request(body: Buffer): Buffer {
    const place = modelIn(body)
    if (!place) return body
    this.#called = Buffer.concat([Buffer.from('"model":'), body.subarray(place.start, place.end)])
    return replaceAt(body, place, this.#served)
  }

  /** What can be told of an answer; its last bytes may be the beginning of a name. */
  answer(chunk: Buffer): Buffer {
    const called = this.#called
    if (!called) return chunk
    const bytes = this.#held.length > 0 ? Buffer.concat([this.#held, chunk]) : chunk
    const parts: Buffer[] = []
    let from = 0
    for (let at = bytes.indexOf(this.#told); at !== -1; at = bytes.indexOf(this.#told, from)) {
      parts.push(bytes.subarray(from, at), called)
      from = at + this.#told.length
    }
    const end = bytes.length - this.#openEnd(bytes.subarray(from))
    this.#held = bytes.subarray(end)
    parts.push(bytes.subarray(from, end))
    return Buffer.concat(parts)
  }

  /** What was held back when the answer has ended. */
  rest(): Buffer {
    return this.#held
  }

  #openEnd(bytes: Buffer): number {
    for (let length = Math.min(this.#told.length - 1, bytes.length); length > 0; length--) {
      if (bytes.subarray(-length).equals(this.#told.subarray(0, length))) return length
    }
    return 0
  }
}
