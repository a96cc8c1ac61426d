import assert from 'node:assert/strict'
import { FAMILIES } from '../../api/app.ts'
import { toOpenApi } from '../../api/http/openapi/openapi.ts'
import { hearth } from '../../client/index.ts'
import type { DescribedMethod } from '../../client/operations.ts'
import { BUILDER } from '../../client/transport.ts'

interface Parameter {
  name: string
  in: string
}

interface OperationSpec {
  operationId: string
  parameters?: Parameter[]
  requestBody?: { content: Record<string, unknown> }
  responses: Record<string, { content?: Record<string, { schema?: { properties?: object } }> }>
}

interface Operation extends OperationSpec {
  method: string
  path: string
}

/** A request as the client sent it. */
interface SentRequest {
  url: string
  init: RequestInit
}

const operations: Operation[] = Object.entries(
  (
    toOpenApi(FAMILIES, { features: ['webhooks'] }) as {
      paths: Record<string, Record<string, OperationSpec>>
    }
  ).paths,
)
  .filter(([path]) => path.startsWith(`${BUILDER}/`))
  .flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, documented]) => ({
      ...documented,
      method: method.toUpperCase(),
      path,
    })),
  )

type Method = DescribedMethod & ((...args: unknown[]) => unknown)

/** Returns the client methods that carry an operation. */
function methodsOf(client: object): Method[] {
  return Object.values(client).flatMap((value: unknown) => {
    if (typeof value === 'function') return 'operation' in value ? [value as unknown as Method] : []
    return typeof value === 'object' && value !== null ? methodsOf(value) : []
  })
}

/** A method returns a response, a list or a stream. */
type MethodResult = Promise<unknown> | { first(): Promise<unknown> } | AsyncGenerator

/** Starts reading a method's return value, which sends its request. */
function begin(called: MethodResult): Promise<unknown> {
  if ('next' in called) return called.next()
  return 'first' in called ? called.first() : called
}

/** Calls a method with an id for each path parameter and a body or query; returns the request it sent. */
async function sent(operationId: string, operation: Operation): Promise<SentRequest> {
  const requests: SentRequest[] = []
  const client = hearth({
    baseUrl: 'http://hearth.test',
    apiKey: 'key',
    fetch(url, init = {}) {
      requests.push({ url, init })
      // A stream that ends without `done` would be reopened.
      const isStream = operation.responses[200]?.content?.['text/event-stream'] !== undefined
      return Promise.resolve(
        isStream ? new Response('event: done\nid: 1\ndata: {}\n\n') : Response.json({ answered: [] }),
      )
    },
  })
  const method = methodsOf(client).find((one) => one.operation.id === operationId)
  assert.ok(method, `${operationId} has no method`)
  const ids = (operation.path.match(/\{/g) ?? []).map((_, i) => `a/b${i}`)
  const called = method(...ids, { file: new Blob(['x']), limit: 3 })
  await begin(called as MethodResult).catch((err: unknown) =>
    assert.ok(err instanceof TypeError, String(err)),
  )
  const [request] = requests
  assert.ok(request && requests.length === 1, operationId)
  return request
}

describe('the TypeScript client', () => {
  it('has exactly one method per account operation of the OpenAPI document', () => {
    const methods = methodsOf(hearth({ baseUrl: '', apiKey: '' })).map(({ operation }) => operation.id)

    assert.ok(operations.length > 50)
    assert.deepEqual(methods.toSorted(), operations.map(({ operationId }) => operationId).toSorted())
  })

  for (const operation of operations) {
    const { operationId, parameters = [], requestBody } = operation

    it(`sends ${operationId} as the document describes it`, async () => {
      const { url, init } = await sent(operationId, operation)
      const headers = init.headers as Record<string, string>
      let at = 0

      assert.equal(init.method, operation.method)
      assert.equal(
        new URL(url).pathname,
        operation.path.replaceAll(/\{\w+\}/g, () => `a%2Fb${at++}`),
      )
      assert.equal(
        'idempotency-key' in headers,
        parameters.some(({ name }) => name.toLowerCase() === 'idempotency-key'),
      )
      assert.equal(
        'if-match' in headers,
        parameters.some(({ name }) => name.toLowerCase() === 'if-match'),
      )
      if ('limit' in Object.fromEntries(new URL(url).searchParams)) {
        assert.ok(parameters.some((parameter) => parameter.in === 'query'))
      }
      const type = Object.keys(requestBody?.content ?? {})[0]
      assert.equal(
        init.body === undefined ? undefined : (headers['content-type'] ?? 'multipart/form-data'),
        type,
      )
    })
  }

  it("reads each list's items from a field that the response schema declares", () => {
    for (const { operation } of methodsOf(hearth({ baseUrl: '', apiKey: '' }))) {
      if (!('items' in operation)) continue
      const { responses } = operations.find(({ operationId }) => operationId === operation.id) ?? {}
      const schema = JSON.stringify(responses?.[200])
      const name = /"\$ref":"#\/components\/schemas\/(\w+)"/.exec(schema)?.[1]
      const document = toOpenApi(FAMILIES, { features: ['webhooks'] }) as {
        components: { schemas: Record<string, { properties?: object }> }
      }
      const inline = responses?.[200]?.content?.['application/json']?.schema?.properties
      const properties = inline ?? document.components.schemas[name ?? '']?.properties ?? {}

      assert.ok(String(operation.items) in properties, operation.id)
    }
  })
})
