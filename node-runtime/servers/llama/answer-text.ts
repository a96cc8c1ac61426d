import type { CallStream } from './call-stream.ts'
import { RawToolCalls } from './raw-tool-calls.ts'

const MARKS = ['[TOOL_CALLS]', '<|python_tag|>']
/** This mark is a single token, so it is never part of a model's text. */
const PYTHON_MARK = '<|python_tag|>'

/**
 * The maximum whitespace held back before a call, because it is not part of the response. Models write a few newlines.
 */
const MAX_LEADING_SPACE = 16

export interface AnswerTextOptions {
  stops: readonly string[]
  /** Functions that may be called in text; empty if a grammar constrains the response. */
  names: readonly string[]
  isOneCall: boolean
  onText: (text: string) => void
}

/** Cuts a model's text at its stop sequences, regardless of token boundaries, and extracts tool calls. */
export class AnswerText {
  readonly #options: AnswerTextOptions
  readonly #marks: readonly string[]
  readonly #stream: CallStream
  #held = ''
  #calls: RawToolCalls | undefined
  /** The mark that opened the calls. */
  #mark = ''
  /** True until the first text of this response is emitted. */
  #isFresh = true
  #hasCalled = false
  /** The emitted text. */
  text = ''
  /** True if all further text must be ignored. */
  isStopped = false

  constructor(stream: CallStream, options: AnswerTextOptions) {
    this.#stream = stream
    this.#options = options
    this.#marks = [...options.stops, ...(options.names.length > 0 ? MARKS : [])]
  }

  add(text: string): void {
    this.#held += text
    let goesOn = true
    while (goesOn && !this.isStopped) goesOn = this.#calls ? this.#readCalls(this.#calls) : this.#step()
  }

  /** Ends the response. Emits text that was held back but didn't begin a mark. */
  end(): void {
    if (this.#calls) {
      this.#calls.end()
      if (!this.#calls.isClosed) return
      this.#leave(this.#calls)
      this.add('')
    }
    const rest = this.#held
    this.#held = ''
    if (!this.isStopped && !(this.#hasCalled && rest.trim() === '')) this.#emit(rest)
  }

  #step(): boolean {
    const { names, stops } = this.#options
    const mayCall = names.length > 0
    if (this.#isFresh && mayCall && this.#held.trim() === '') {
      if (this.#held.length <= MAX_LEADING_SPACE) return false
      this.#isFresh = false
    }
    if (this.#isFresh && mayCall && this.#beginsBare()) return this.#begin('')
    const places = this.#marks.map((mark) => this.#held.indexOf(mark)).filter((at) => at !== -1)
    const found = places.length > 0 ? Math.min(...places) : undefined
    const upto = found ?? this.#held.length - openEnd(this.#held, this.#marks)
    const text = this.#held.slice(0, upto)
    this.#held = this.#held.slice(upto)
    // Models write blank lines around calls, which are not part of the response.
    const isPadding = mayCall && text.trim() === '' && (found !== undefined || this.#hasCalled)
    if (!isPadding) this.#emit(text)
    if (found === undefined) return false
    const mark = mayCall ? MARKS.find((each) => this.#held.startsWith(each)) : undefined
    if (mark !== undefined && !stops.some((stop) => this.#held.startsWith(stop))) return this.#begin(mark)
    this.isStopped = true
    return false
  }

  #beginsBare(): boolean {
    const begun = this.#held.trimStart()
    if (!begun.startsWith('[')) return begun.startsWith('{')
    // The text may also be the start of a mark.
    return !MARKS.some((mark) => begun.startsWith(mark)) && openEnd(begun, MARKS) === 0
  }

  #begin(mark: string): boolean {
    this.#held = this.#held.slice(mark.length)
    this.#isFresh = false
    this.#mark = mark === PYTHON_MARK ? '' : mark
    this.#calls = new RawToolCalls(this.#options.names, this.#stream, this.#options)
    return true
  }

  #readCalls(calls: RawToolCalls): boolean {
    const text = this.#held
    this.#held = ''
    calls.add(text)
    if (!calls.isClosed) return false
    this.#leave(calls)
    this.isStopped = this.#options.isOneCall && calls.hasCalled
    return !this.isStopped
  }

  #leave(calls: RawToolCalls): void {
    this.#hasCalled ||= calls.hasCalled
    if (!calls.hasCalled) this.#emit(this.#mark + calls.failedOpening)
    this.#calls = undefined
    this.#held = calls.rest + this.#held
  }

  #emit(text: string): void {
    if (text === '') return
    this.#isFresh = false
    this.text += text
    this.#options.onText(text)
  }
}

/** Returns the number of trailing characters that may be the start of a mark. */
function openEnd(text: string, marks: readonly string[]): number {
  const longest = Math.max(1, ...marks.map(({ length }) => length)) - 1
  for (let length = Math.min(longest, text.length); length > 0; length--) {
    const end = text.slice(-length)
    if (marks.some((mark) => mark.startsWith(end))) return length
  }
  return 0
}
