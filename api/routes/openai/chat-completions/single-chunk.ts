interface Choice {
  index?: number
  message?: { tool_calls?: object[] }
  [field: string]: unknown
}

/** Converts a complete response to the one event of a stream, for servers that cannot stream. */
export function singleChunk(completion: Record<string, unknown>): Buffer {
  const choices = Array.isArray(completion.choices) ? (completion.choices as Choice[]) : []
  const chunk = {
    ...completion,
    object: 'chat.completion.chunk',
    choices: choices.map(({ message, ...rest }) => ({ ...rest, delta: deltaOf(message) })),
  }
  return Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`)
}

/** Clients distinguish fragments of tool calls by their index. */
function deltaOf(message: Choice['message'] = {}): object {
  if (!Array.isArray(message.tool_calls)) return message
  return { ...message, tool_calls: message.tool_calls.map((call, index) => ({ index, ...call })) }
}
