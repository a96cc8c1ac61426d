/** Yields the data of each event of a stream; joins the data lines of an event and skips comments. */
export async function* eventsIn(body: AsyncIterable<Uint8Array>): AsyncIterable<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true }).replaceAll('\r\n', '\n')
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const data = text
        .slice(0, end)
        .split('\n')
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice('data:'.length).replace(/^ /, ''))
      text = text.slice(end + 2)
      if (data.length > 0 && data.join('') !== '') yield data.join('\n')
    }
  }
}
