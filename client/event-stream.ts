/** A server-sent event with JSON data. */
export interface ServerEvent {
  event: string
  id: string
  data: unknown
}

/**
 * Yields the events of a response until it ends; throws if the connection is lost. Calls `onPlace` with positions that
 * the stream sends without an event.
 */
export async function* eventsOf(
  body: ReadableStream<Uint8Array>,
  onPlace?: (id: string) => void,
): AsyncGenerator<ServerEvent, void> {
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let text = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const blocks = (text + decoder.decode(value, { stream: true })).split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) {
        const { data, id = '', event = 'message' } = fieldsOf(block)
        if (data !== undefined) yield { event, id, data: JSON.parse(data) }
        else if (id !== '') onPlace?.(id)
      }
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

/** Comments and reconnection times have no data. */
function fieldsOf(block: string): Partial<Record<string, string>> {
  return Object.fromEntries(
    block.split('\n').map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon), line.slice(colon + 1).trimStart()]
    }),
  )
}
