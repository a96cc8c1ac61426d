/** A server-sent event, whose data is JSON. */
export interface ServerEvent {
  event: string
  id: string
  data: unknown
}

/** Yields the events of an answer; ends where it ends, and throws where its connection is lost. */
export async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent, void> {
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
        const event = parse(block)
        if (event) yield event
      }
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

/** Comments and times of reconnection have no data. */
function parse(block: string): ServerEvent | undefined {
  const fields = new Map(
    block.split('\n').map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon), line.slice(colon + 1).trimStart()]
    }),
  )
  const data = fields.get('data')
  if (data === undefined) return undefined
  return { event: fields.get('event') ?? 'message', id: fields.get('id') ?? '', data: JSON.parse(data) }
}
