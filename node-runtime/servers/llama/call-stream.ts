import { randomUUID } from 'node:crypto'
import type { FunctionCallChunk } from './binding.ts'

export interface ToolCall {
  id: string
  type: 'function'
  function: { name: string; arguments: string }
}

/** A fragment of a tool call in a stream; the first fragment of a call has its id and name. */
export interface CallFragment {
  index: number
  id?: string
  type?: 'function'
  function: { name?: string; arguments: string }
}

/** Assembles the calls of one response and streams their fragments as they arrive. */
export class CallStream {
  readonly calls: ToolCall[] = []
  readonly #emit: (fragment: CallFragment) => void
  #done = 0
  /** Whitespace that only belongs to the arguments if more of them follow. */
  #held = ''

  constructor(emit: (fragment: CallFragment) => void) {
    this.#emit = emit
  }

  /** True while a call is in progress. */
  get isInCall(): boolean {
    return this.calls.length > this.#done
  }

  add({ functionName, paramsChunk, done }: FunctionCallChunk): void {
    const call = this.#current(functionName)
    const text = this.#held + paramsChunk
    const ready = text.trimEnd()
    this.#held = done ? '' : text.slice(ready.length)
    if (ready === '') return
    call.function.arguments += ready
    this.#emit({ index: this.#done, function: { arguments: ready } })
  }

  /** Completes a call. A call without arguments is streamed only now. */
  end(functionName: string): void {
    const call = this.#current(functionName)
    if (call.function.arguments === '') {
      call.function.arguments = '{}'
      this.#emit({ index: this.#done, function: { arguments: '{}' } })
    }
    this.#held = ''
    this.#done += 1
  }

  #current(name: string): ToolCall {
    const known = this.calls[this.#done]
    if (known) return known
    const id = `call_${randomUUID().replaceAll('-', '').slice(0, 24)}`
    const call: ToolCall = { id, type: 'function', function: { name, arguments: '' } }
    this.calls.push(call)
    this.#emit({ index: this.#done, id, type: 'function', function: { name, arguments: '' } })
    return call
  }
}
