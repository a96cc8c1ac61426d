import {
  callItem,
  type FunctionCall,
  incompleteBy,
  type ItemStatus,
  messageItem,
  reasoningItem,
  reasoningPart,
  textPart,
  usageOf,
} from './output.ts'
import type { ResponseBuilder } from './response.ts'

/** The parts of a streamed chat chunk that events need. */
export interface ChatChunk {
  choices?: readonly { delta?: ChatDelta | null; finish_reason?: unknown }[]
  usage?: object | null
}

interface ChatDelta {
  content?: unknown
  reasoning_content?: unknown
  tool_calls?: readonly {
    index?: number
    id?: string
    function?: { name?: string; arguments?: string }
  }[]
}

/** The item that a model is currently writing. */
interface OpenItem {
  kind: 'rs' | 'msg' | 'fc'
  id: string
  index: number
  text: string
  call?: FunctionCall
  /** The index of a call among the calls of its chat. */
  callIndex?: number
}

/**
 * Turns the chunks of a streamed chat into response events: `response.created` first, then each output item with its
 * deltas, and one terminal event. Names and order follow OpenAI's API reference.
 */
export class ResponseEvents {
  readonly #builder: ResponseBuilder
  readonly #output: object[] = []
  #open: OpenItem | undefined
  #sequence = 0
  #usage: object | undefined
  #finishReason: unknown

  constructor(builder: ResponseBuilder) {
    this.#builder = builder
  }

  /** Returns the events that precede any model output. */
  begin(): string {
    const response = this.#builder.build({ status: 'in_progress', output: [] })
    return this.#event('response.created', { response }) + this.#event('response.in_progress', { response })
  }

  take({ choices = [], usage }: ChatChunk): string {
    if (usage) this.#usage = usage
    const { delta, finish_reason } = choices[0] ?? {}
    if (finish_reason) this.#finishReason = finish_reason
    if (!delta) return ''
    const { reasoning_content: reasoning, content, tool_calls: calls = [] } = delta
    let events = ''
    if (typeof reasoning === 'string' && reasoning !== '') events += this.#write('rs', reasoning)
    if (typeof content === 'string' && content !== '') events += this.#write('msg', content)
    for (const call of calls) events += this.#call(call)
    return events
  }

  /** Returns the events after the last chunk. */
  end(): string {
    const incomplete = incompleteBy(this.#finishReason)
    const status = incomplete ? 'incomplete' : 'completed'
    const isEmpty = this.#output.length === 0 && !this.#open
    const last = (isEmpty ? this.#begin('msg').events : '') + this.#close(status)
    const usage = usageOf(this.#usage)
    const response = this.#builder.build({
      status,
      output: this.#output,
      usage,
      incomplete_details: incomplete,
    })
    return last + this.#event(`response.${status}`, { response })
  }

  /** Returns the event that ends a response that failed after its first byte. */
  fail(error: { code: string; message: string }): string {
    const output = this.#output
    return this.#event('response.failed', {
      response: this.#builder.build({ status: 'failed', output, error }),
    })
  }

  #write(kind: 'rs' | 'msg', delta: string): string {
    let [open, events] = [this.#open, '']
    if (open?.kind !== kind) {
      events = this.#close('completed')
      const begun = this.#begin(kind)
      open = begun.open
      events += begun.events
    }
    open.text += delta
    const type = kind === 'rs' ? 'response.reasoning_text.delta' : 'response.output_text.delta'
    return events + this.#event(type, { ...placeOf(open), delta, ...(kind === 'msg' && { logprobs: [] }) })
  }

  #call({
    index = 0,
    id,
    function: { name, arguments: args } = {},
  }: NonNullable<ChatDelta['tool_calls']>[number]): string {
    let [open, events] = [this.#open, '']
    if (open?.kind !== 'fc' || open.callIndex !== index) {
      events = this.#close('completed')
      const begun = this.#begin('fc', { id: id ?? `call_${index}`, name: name ?? '', arguments: '' }, index)
      open = begun.open
      events += begun.events
    }
    const { call, id: item_id, index: output_index } = open
    if (!args || !call) return events
    call.arguments += args
    return (
      events + this.#event('response.function_call_arguments.delta', { item_id, output_index, delta: args })
    )
  }

  #begin(
    kind: OpenItem['kind'],
    call?: FunctionCall,
    callIndex?: number,
  ): { open: OpenItem; events: string } {
    const index = this.#output.length
    const id = this.#builder.itemId(kind, index)
    const open: OpenItem = {
      kind,
      id,
      index,
      text: '',
      ...(call && { call }),
      ...(callIndex !== undefined && { callIndex }),
    }
    this.#open = open
    const added = { output_index: index, item: itemOf(open, 'in_progress', true) }
    const item = this.#event('response.output_item.added', added)
    if (kind === 'fc') return { open, events: item }
    const part = kind === 'rs' ? reasoningPart('') : textPart('')
    const content = this.#event('response.content_part.added', { ...placeOf(open), part })
    return { open, events: item + content }
  }

  /** Ends the item in progress, if there is one. */
  #close(status: Exclude<ItemStatus, 'in_progress'>): string {
    const open = this.#open
    if (!open) return ''
    this.#open = undefined
    const item = itemOf(open, open.kind === 'fc' ? 'completed' : status, false)
    this.#output.push(item)
    return this.#content(open) + this.#event('response.output_item.done', { output_index: open.index, item })
  }

  /** Ends an item's content. */
  #content(open: OpenItem): string {
    const { kind, id: item_id, index: output_index, text, call } = open
    if (kind === 'fc') {
      const done = { item_id, output_index, name: call?.name, arguments: call?.arguments ?? '' }
      return this.#event('response.function_call_arguments.done', done)
    }
    const [type, part] =
      kind === 'rs'
        ? ['response.reasoning_text.done', reasoningPart(text)]
        : ['response.output_text.done', textPart(text)]
    const position = placeOf(open)
    const written = this.#event(type, { ...position, text, ...(kind === 'msg' && { logprobs: [] }) })
    return written + this.#event('response.content_part.done', { ...position, part })
  }

  #event(type: string, fields: object): string {
    const data = JSON.stringify({ type, sequence_number: this.#sequence++, ...fields })
    return `event: ${type}\ndata: ${data}\n\n`
  }
}

const placeOf = ({ id, index }: OpenItem): object => ({ item_id: id, output_index: index, content_index: 0 })

/** An item has no content when it is added, and all of its content when it is done. */
function itemOf({ kind, id, text, call }: OpenItem, status: ItemStatus, isNew: boolean): object {
  if (kind === 'fc') return callItem(id, status, call ?? { id: '', name: '', arguments: '' })
  return kind === 'rs' ? reasoningItem(id, text) : messageItem(id, status, isNew ? undefined : text)
}
