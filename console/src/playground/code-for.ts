import { BUILDER } from '../api.ts'
import type { Endpoint } from '../types.ts'
import { startOf } from './rows.ts'

type Code = readonly [language: string, text: string]
interface ExampleRequest {
  path: string
  body: object
}
/** The routes under `/v1` that OpenAI's packages call, by the kind of the endpoint. */
const OPENAI: Record<string, (name: string) => ExampleRequest> = {
  chat: (model) => ({
    path: '/v1/chat/completions',
    body: { model, messages: [{ role: 'user', content: 'Hello' }] },
  }),
  embeddings: (model) => ({ path: '/v1/embeddings', body: { model, input: ['Hello', 'world'] } }),
}
const CHATS = new Set(['chat', 'code', 'text-generation'])

/**
 * Returns programs that call an endpoint with the input in its form. They read the key from the environment, so that no
 * key is copied with the code.
 */
export function codeFor(endpoint: Endpoint, input: unknown = startOf(endpoint)): Code[] {
  const openai = OPENAI[CHATS.has(endpoint.task_type) ? 'chat' : endpoint.task_type]
  if (openai) {
    const asked = openai(endpoint.name)
    return [
      ['curl', curl(asked)],
      ['TypeScript', openaiTypeScript(asked)],
      ['Python', openaiPython(asked)],
    ]
  }
  const asked = {
    path: `${BUILDER}/endpoints/${endpoint.name}/infer`,
    body: { input },
  }
  return [
    ['curl', curl(asked)],
    ['TypeScript', typeScript(asked)],
    ['Python', python(asked)],
  ]
}

const json = (value: unknown, indent = ''): string =>
  JSON.stringify(value, null, 2).replaceAll('\n', `\n${indent}`)

const curl = ({ path, body }: ExampleRequest): string =>
  `curl ${location.origin}${path} \\
  -H "Authorization: Bearer $HEARTH_API_KEY" -H 'Content-Type: application/json' \\
  -d '${json(body).replaceAll("'", String.raw`'\''`)}'`

const typeScript = ({ path, body }: ExampleRequest): string =>
  `const answer = await fetch('${location.origin}${path}', {
  method: 'POST',
  headers: { authorization: \`Bearer \${process.env.HEARTH_API_KEY}\`, 'content-type': 'application/json' },
  body: JSON.stringify(${json(body, '  ')}),
})
console.log(await answer.json())
`

const python = ({ path, body }: ExampleRequest): string =>
  `import json, os, urllib.request

request = urllib.request.Request(
    "${location.origin}${path}",
    data=json.dumps(${pythonic(body, '    ')}).encode(),
    headers={"Authorization": f"Bearer {os.environ['HEARTH_API_KEY']}", "Content-Type": "application/json"},
)
print(json.load(urllib.request.urlopen(request)))
`

const openaiTypeScript = ({ path, body }: ExampleRequest): string =>
  `import OpenAI from 'openai'

const client = new OpenAI({ baseURL: '${location.origin}/v1', apiKey: process.env.HEARTH_API_KEY })
${
  path.endsWith('embeddings')
    ? `const { data } = await client.embeddings.create(${json(body)})
console.log(data.map(({ embedding }) => embedding.length))`
    : `const stream = await client.chat.completions.create(${json({ ...body, stream: true })})
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '')`
}
`

const openaiPython = ({ path, body }: ExampleRequest): string =>
  `import os
from openai import OpenAI

client = OpenAI(base_url="${location.origin}/v1", api_key=os.environ["HEARTH_API_KEY"])
${
  path.endsWith('embeddings')
    ? `answer = client.embeddings.create(**${pythonic(body)})
print([len(each.embedding) for each in answer.data])`
    : `stream = client.chat.completions.create(**${pythonic({ ...body, stream: true })})
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="")`
}
`

/** JSON is valid Python except for three literals, which may also appear inside strings. */
function pythonic(value: unknown, indent = ''): string {
  const words = { true: 'True', false: 'False', null: 'None' }
  return json(value, indent).replaceAll(
    /"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g,
    (text) => words[text as keyof typeof words] ?? text,
  )
}
