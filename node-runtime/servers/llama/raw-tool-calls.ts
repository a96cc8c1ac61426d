import type { CallStream } from './call-stream.ts'

const HEAD =
  /^\s*\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)/
const NAME = /^"name"\s*:\s*"((?:[^"\\]|\\.)*)("?)/
const FIRST_KEYS = ['"name"', '"type"', '"arguments"', '"parameters"', '"function"']
const KEYS = new Set(['name', 'type', 'id', 'arguments', 'parameters'])

/**
 * Parses calls of known functions in text: one object, several in a row, or a list, as written by Llama 3 and Mistral.
 * Anything after the last call is text.
 */
export class RawToolCalls {
  readonly #names: readonly string[]
  readonly #isOneCall: boolean
  readonly #stream: CallStream
  #object: CallObject | undefined
  #isList: boolean | undefined
  #opening = ''
  #held = ''
  #streamed = 0
  isClosed = false

  constructor(names: readonly string[], stream: CallStream, { isOneCall }: { isOneCall: boolean }) {
    this.#names = names
    this.#stream = stream
    this.#isOneCall = isOneCall
  }

  get hasCalled(): boolean {
    return this.#streamed > 0
  }

  /** The opening bracket of a list without calls, which turned out to be text. */
  get failedOpening(): string {
    return this.hasCalled ? '' : this.#opening
  }

  /** The text after the last call. */
  get rest(): string {
    return (this.#object?.text ?? '') + this.#held
  }

  add(text: string): void {
    this.#held += text
    let goesOn = true
    while (goesOn && !this.isClosed) goesOn = this.#object ? this.#read(this.#object) : this.#between()
  }

  /** Ends the text. A call that was cut off stays open. */
  end(): void {
    if (this.#object?.isStreamed) return
    this.isClosed = true
    if (!this.#object && /^[\s,;\]]*$/.test(this.#held)) this.#held = ''
  }

  #read(object: CallObject): boolean {
    const text = this.#held
    this.#held = ''
    const wasStreamed = object.isStreamed
    object.add(text)
    if (object.isStreamed && !wasStreamed) this.#streamed += 1
    this.isClosed = object.isOther
    if (object.isOther || !object.isWhole) return false
    this.#object = undefined
    this.#held = this.#isOneCall ? '' : object.rest
    this.isClosed = this.#isOneCall
    return true
  }

  #between(): boolean {
    const text = this.#held.trimStart()
    if (text === '') return false
    const lead = this.#held.slice(0, -text.length)
    if (text.startsWith('{')) {
      this.#isList ??= false
      this.#object = new CallObject(this.hasCalled ? '' : lead, this.#names, this.#stream)
      this.#held = text
    } else if (text.startsWith('[') && this.#isList === undefined) {
      this.#isList = true
      this.#opening = `${lead}[`
      this.#held = text.slice(1)
    } else if (this.hasCalled && (this.#isList ? ',;' : ';').includes(text.charAt(0))) {
      this.#held = text.slice(1)
    } else {
      if (this.hasCalled && this.#isList && text.startsWith(']')) this.#held = text.slice(1)
      this.isClosed = true
    }
    return !this.isClosed
  }
}

/** An object that may be a call. */
class CallObject {
  readonly #lead: string
  readonly #names: readonly string[]
  readonly #stream: CallStream
  readonly #outer = new JsonEndScanner()
  readonly #inner = new JsonEndScanner()
  #text = ''
  #outerAt = 0
  #innerAt = 0
  #name: string | undefined
  isOther = false

  constructor(lead: string, names: readonly string[], stream: CallStream) {
    this.#lead = lead
    this.#names = names
    this.#stream = stream
  }

  get isStreamed(): boolean {
    return this.#name !== undefined
  }

  get isWhole(): boolean {
    return this.#outer.isFound
  }

  get text(): string {
    return this.#lead + this.#text
  }

  get rest(): string {
    return this.#text.slice(this.#outerAt)
  }

  add(text: string): void {
    this.#text += text
    if (!this.isWhole) this.#outerAt = this.#outer.find(this.#text, this.#outerAt)
    if (!this.isStreamed) this.#begin()
    if (this.#innerAt > 0 && !this.#inner.isFound) {
      const begin = this.#innerAt
      this.#innerAt = this.#inner.find(this.#text, begin)
      this.#emit(this.#text.slice(begin, this.#innerAt))
    }
    if (this.isWhole && this.#name !== undefined) this.#stream.end(this.#name)
  }

  #begin(): void {
    const head = HEAD.exec(this.#text)
    if (head) {
      const name = JSON.parse(head[1] ?? '""') as string
      this.isOther = !this.#names.includes(name)
      if (this.isOther) return
      this.#name = name
      this.#innerAt = head[0].length
    } else if (this.isWhole) {
      const call = callOf(this.#text.slice(0, this.#outerAt))
      this.isOther = !call || !this.#names.includes(call.name)
      if (!call || this.isOther) return
      this.#name = call.name
      this.#emit(call.arguments)
    } else this.isOther = !this.#mayBeCall()
  }

  #emit(paramsChunk: string): void {
    if (this.#name === undefined || paramsChunk === '') return
    this.#stream.add({ callIndex: 0, functionName: this.#name, paramsChunk, done: false })
  }

  #mayBeCall(): boolean {
    const text = this.#text.replace(/^\s*\{\s*/, '')
    const [, begun = '', quote] = NAME.exec(text) ?? []
    if (quote !== undefined) {
      return this.#names.some((name) => (quote === '' ? name.startsWith(begun) : name === begun))
    }
    return FIRST_KEYS.some((key) => key.startsWith(text) || text.startsWith(key))
  }
}

/** Finds the end of a JSON object that arrives in chunks. */
class JsonEndScanner {
  #depth = 0
  #isInText = false
  #isEscaped = false
  isFound = false

  /** Returns the position after the object, or the end of `text` while the object is incomplete. */
  find(text: string, from: number): number {
    for (let at = from; at < text.length; at++) {
      const letter = text.charAt(at)
      if (this.#isEscaped) this.#isEscaped = false
      else if (this.#isInText) {
        this.#isEscaped = letter === '\\'
        this.#isInText = letter !== '"'
      } else if (letter === '"') this.#isInText = true
      else if ('{['.includes(letter)) this.#depth += 1
      else if ('}]'.includes(letter) && --this.#depth === 0) {
        this.isFound = true
        return at + 1
      }
    }
    return text.length
  }
}

/** Parses a call from its JSON; undefined if it isn't a call. */
function callOf(text: string): { name: string; arguments: string } | undefined {
  try {
    const whole = JSON.parse(text) as Record<string, unknown>
    const inner = whole['function']
    const call = typeof inner === 'object' && inner !== null ? (inner as Record<string, unknown>) : whole
    const { name, arguments: given = call['parameters'] } = call
    if (typeof name !== 'string' || !Object.keys(call).every((key) => KEYS.has(key))) return undefined
    if (typeof given === 'string') {
      return given.trimStart().startsWith('{') ? { name, arguments: given } : undefined
    }
    const isObject = typeof given === 'object' && given !== null && !Array.isArray(given)
    return isObject ? { name, arguments: JSON.stringify(given) } : undefined
  } catch {
    return undefined
  }
}
