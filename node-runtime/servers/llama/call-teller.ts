import { randomUUID } from 'node:crypto'
import type { FunctionCallChunk } from './binding.ts'

export interface ToolCall {
  id: string
  type: 'function'
  function: { name: string; arguments: string }
}

/** A part of a tool call as a stream tells it; the first of a call has its id and name. */
export interface CallFragment {
  index: number
  id?: string
  type?: 'function'
  function: { name?: string; arguments: string }
}

/** Puts the calls of one answer together and tells their fragments as they come. */
export class CallTeller {
  readonly calls: ToolCall[] = []
  readonly #tell: (fragment: CallFragment) => void
  #done = 0
  /** White space that belongs to the arguments only if more of them follows. */
  #held = ''

  constructor(tell: (fragment: CallFragment) => void) {
    this.#tell = tell
  }

  /** Whether a call has begun and not ended. */
  get isInCall(): boolean {
    return this.calls.length > this.#done
  }

  add({ functionName, paramsChunk, done }: FunctionCallChunk): void {
    const call = this.#current(functionName)
    const text = this.#held + paramsChunk
    const told = text.trimEnd()
    this.#held = done ? '' : text.slice(told.length)
    if (told === '') return
    call.function.arguments += told
    this.#tell({ index: this.#done, function: { arguments: told } })
  }

  /** The call is whole; one without arguments has told nothing before. */
  end(functionName: string): void {
    const call = this.#current(functionName)
    if (call.function.arguments === '') {
      call.function.arguments = '{}'
      this.#tell({ index: this.#done, function: { arguments: '{}' } })
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
    this.#tell({ index: this.#done, id, type: 'function', function: { name, arguments: '' } })
    return call
  }
}
