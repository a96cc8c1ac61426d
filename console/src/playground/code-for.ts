import { BUILDER } from '../api.ts'
import type { Endpoint } from '../types.ts'

/** Returns programs that call an endpoint; the key comes from the environment, so that none is copied with the text. */
export function codeFor(endpoint: Endpoint, isChat: boolean): (readonly [name: string, text: string])[] {
  const base = location.origin
  if (isChat) {
    const body = JSON.stringify(
      { model: endpoint.name, messages: [{ role: 'user', content: 'Hello' }] },
      null,
      2,
    )
    return [
      ['curl', curl(`${base}/v1/chat/completions`, body)],
      [
        'Python',
        `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${base}/v1", api_key=os.environ["HEARTH_API_KEY"])\nstream = client.chat.completions.create(\n    model="${endpoint.name}",\n    messages=[{"role": "user", "content": "Hello"}],\n    stream=True,\n)\nfor chunk in stream:\n    print(chunk.choices[0].delta.content or "", end="")\n`,
      ],
    ]
  }
  const url = `${base}${BUILDER}/endpoints/${endpoint.endpoint_id}/infer`
  const body = JSON.stringify({ input: endpoint.example_input }, null, 2)
  return [
    ['curl', curl(url, body)],
    [
      'JavaScript',
      `const answer = await fetch('${url}', {\n  method: 'POST',\n  headers: { 'content-type': 'application/json', 'x-api-key': process.env.HEARTH_API_KEY },\n  body: JSON.stringify(${body.replaceAll('\n', '\n  ')}),\n})\nconsole.log(await answer.json())\n`,
    ],
  ]
}

const curl = (url: string, body: string): string =>
  `curl ${url} \\\n  -H "X-API-Key: $HEARTH_API_KEY" -H 'Content-Type: application/json' \\\n  -d '${body.replaceAll("'", String.raw`'\''`)}'`
