import { BareCalls } from './bare-calls.ts'
import type { CallTeller } from './call-teller.ts'

const MARKS = ['[TOOL_CALLS]', '<|python_tag|>']
/** Stands for no text of a model. */
const PYTHON_MARK = '<|python_tag|>'

export interface AnswerTextOptions {
  stops: readonly string[]
  /** Functions that may be called in text: none where the answer is held to a form. */
  names: readonly string[]
  isOneCall: boolean
  onText: (text: string) => void
}

/** Cuts the text of a model at its stop texts, wherever tokens begin and end, and takes calls out of it. */
export class AnswerText {
  readonly #options: AnswerTextOptions
  readonly #marks: readonly string[]
  readonly #teller: CallTeller
  #held = ''
  #calls: BareCalls | undefined
  /** What opened them. */
  #mark = ''
  /** Nothing has been told of this answer. */
  #isFresh = true
  #hasCalled = false
  /** What the caller has been told. */
  text = ''
  /** Nothing that comes now belongs to the answer. */
  isStopped = false

  constructor(teller: CallTeller, options: AnswerTextOptions) {
    this.#teller = teller
    this.#options = options
    this.#marks = [...options.stops, ...(options.names.length > 0 ? MARKS : [])]
  }

  add(text: string): void {
    this.#held += text
    let goesOn = true
    while (goesOn && !this.isStopped) goesOn = this.#calls ? this.#readCalls(this.#calls) : this.#step()
  }

  /** What was held back turns out to be text when nothing more comes. */
  end(): void {
    if (this.#calls) {
      this.#calls.end()
      if (!this.#calls.isClosed) return
      this.#leave(this.#calls)
      this.add('')
    }
    const rest = this.#held
    this.#held = ''
    if (!this.isStopped && !(this.#hasCalled && rest.trim() === '')) this.#tell(rest)
  }

  #step(): boolean {
    const { names, stops } = this.#options
    const mayCall = names.length > 0
    if (this.#isFresh && mayCall && this.#held.trim() === '') return false
    if (this.#isFresh && mayCall && this.#beginsBare()) return this.#begin('')
    const places = this.#marks.map((mark) => this.#held.indexOf(mark)).filter((at) => at !== -1)
    const found = places.length > 0 ? Math.min(...places) : undefined
    const upto = found ?? this.#held.length - openEnd(this.#held, this.#marks)
    const text = this.#held.slice(0, upto)
    this.#held = this.#held.slice(upto)
    // Around calls models write blank lines that belong to nobody.
    const isPadding = mayCall && text.trim() === '' && (found !== undefined || this.#hasCalled)
    if (!isPadding) this.#tell(text)
    if (found === undefined) return false
    const mark = mayCall ? MARKS.find((each) => this.#held.startsWith(each)) : undefined
    if (mark !== undefined && !stops.some((stop) => this.#held.startsWith(stop))) return this.#begin(mark)
    this.isStopped = true
    return false
  }

  #beginsBare(): boolean {
    const begun = this.#held.trimStart()
    if (!begun.startsWith('[')) return begun.startsWith('{')
    // It may also be the beginning of a mark.
    return !MARKS.some((mark) => begun.startsWith(mark)) && openEnd(begun, MARKS) === 0
  }

  #begin(mark: string): boolean {
    this.#held = this.#held.slice(mark.length)
    this.#isFresh = false
    this.#mark = mark === PYTHON_MARK ? '' : mark
    this.#calls = new BareCalls(this.#options.names, this.#teller, this.#options)
    return true
  }

  #readCalls(calls: BareCalls): boolean {
    const text = this.#held
    this.#held = ''
    calls.add(text)
    if (!calls.isClosed) return false
    this.#leave(calls)
    this.isStopped = this.#options.isOneCall && calls.hasCalled
    return !this.isStopped
  }

  #leave(calls: BareCalls): void {
    this.#hasCalled ||= calls.hasCalled
    if (!calls.hasCalled) this.#tell(this.#mark + calls.failedOpening)
    this.#calls = undefined
    this.#held = calls.rest + this.#held
  }

  #tell(text: string): void {
    if (text === '') return
    this.#isFresh = false
    this.text += text
    this.#options.onText(text)
  }
}

/** How many characters at the end may be the beginning of a mark. */
function openEnd(text: string, marks: readonly string[]): number {
  const longest = Math.max(1, ...marks.map(({ length }) => length)) - 1
  for (let length = Math.min(longest, text.length); length > 0; length--) {
    const end = text.slice(-length)
    if (marks.some((mark) => mark.startsWith(end))) return length
  }
  return 0
}
