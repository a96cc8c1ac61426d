import type { CreateResponse } from '../../schemas/openai/responses.ts'
import { callItem, incompleteBy, messageItem, reasoningItem, usageOf } from './output.ts'

export interface ResponseFacts {
  /** The task id, from which the ids of the response and its items are derived. */
  taskId: string
  createdAt: Date
}

interface Outcome {
  status: 'in_progress' | 'completed' | 'incomplete' | 'failed'
  output: readonly object[]
  usage?: object
  incomplete_details?: object | null
  error?: { code: string; message: string }
}

/** The parts of a chat completion that a response needs. */
interface Completion {
  choices?: readonly Choice[]
  usage?: object
}

interface Choice {
  finish_reason?: unknown
  message?: {
    content?: unknown
    reasoning_content?: unknown
    tool_calls?: readonly { id?: string; function?: { name?: string; arguments?: string } }[]
  }
}

/** Builds responses to one request; they repeat its settings, as OpenAI's API reference specifies. */
export class ResponseBuilder {
  readonly #frame: object
  readonly #suffix: string

  constructor(request: CreateResponse, { taskId, createdAt }: ResponseFacts) {
    this.#suffix = taskId.replaceAll('-', '')
    this.#frame = {
      id: `resp_${this.#suffix}`,
      object: 'response',
      created_at: Math.floor(createdAt.getTime() / 1_000),
      background: false,
      instructions: request.instructions ?? null,
      max_output_tokens: request.max_output_tokens ?? null,
      metadata: request.metadata ?? {},
      model: request.model,
      parallel_tool_calls: request.parallel_tool_calls ?? true,
      previous_response_id: null,
      reasoning: { effort: request.reasoning?.['effort'] ?? null, summary: null },
      store: false,
      temperature: request.temperature ?? null,
      text: { format: request.text?.format ?? { type: 'text' } },
      tool_choice: request.tool_choice ?? 'auto',
      tools: request.tools ?? [],
      top_p: request.top_p ?? null,
      truncation: 'disabled',
      user: request.user ?? null,
    }
  }

  /** Returns the id of the output item at an index. */
  itemId(prefix: 'msg' | 'rs' | 'fc', index: number): string {
    return `${prefix}_${this.#suffix}${index}`
  }

  build({ status, output, usage, incomplete_details, error }: Outcome): object {
    return {
      ...this.#frame,
      status,
      error: error ?? null,
      incomplete_details: incomplete_details ?? null,
      output,
      usage: usage ?? null,
    }
  }

  /** Returns the response for a complete chat. */
  fromCompletion({ choices = [], usage }: Completion): object {
    const { finish_reason, message = {} } = choices[0] ?? {}
    const incomplete = incompleteBy(finish_reason)
    const status = incomplete ? 'incomplete' : 'completed'
    const { content, reasoning_content: reasoning, tool_calls: calls = [] } = message
    const output: object[] = []
    if (typeof reasoning === 'string' && reasoning !== '')
      output.push(reasoningItem(this.itemId('rs', output.length), reasoning))
    if (typeof content === 'string' && (content !== '' || calls.length === 0))
      output.push(messageItem(this.itemId('msg', output.length), status, content))
    for (const { id = '', function: { name = '', arguments: args = '' } = {} } of calls)
      output.push(callItem(this.itemId('fc', output.length), 'completed', { id, name, arguments: args }))
    return this.build({ status, output, usage: usageOf(usage), incomplete_details: incomplete })
  }
}
