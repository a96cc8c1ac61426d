import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import Type, { type TSchema } from 'typebox'
import { FAMILIES } from '../../api/app.ts'
import { errorCodesOf } from '../../api/http/openapi/implied-errors.ts'
import { toOpenApi } from '../../api/http/openapi/openapi.ts'
import { jsonCheck } from '../../api/http/validate.ts'
import { ApiError } from '../../domain/errors.ts'
import { formatPattern } from '../../schemas/forms.ts'
import { startApi } from '../support/servers/api.ts'
import { SERVED } from './routes.ts'

const CHECKED_IN = new URL('../../docs/openapi/hearth.json', import.meta.url)

interface Operation {
  operationId: string
  responses: Record<string, unknown>
}

function compile(schema: TSchema): void {
  try {
    jsonCheck('body', schema)({})
  } catch (err) {
    assert.ok(err instanceof ApiError, String(err))
  }
}

describe('route declarations', () => {
  it('have unique operation ids', () => {
    const ids = SERVED.map(({ route }) => route.operationId)

    assert.deepEqual(
      ids.filter((id, i) => ids.indexOf(id) !== i),
      [],
    )
  })

  it('have a plain-language hint for every pattern that a request must match', () => {
    const patterns = (value: unknown): string[] => {
      if (typeof value !== 'object' || value === null) return []
      const own = 'pattern' in value && typeof value.pattern === 'string' ? [value.pattern] : []
      return [...own, ...Object.values(value).flatMap(patterns)]
    }
    const requestPatterns = SERVED.flatMap(({ route: { params, query, headers, body } }) =>
      patterns([params, query, headers, body]),
    )

    assert.ok(requestPatterns.length > 10)
    assert.deepEqual(
      requestPatterns.filter((pattern) => formatPattern(pattern) === undefined),
      [],
    )
  })

  it('have only defaults that pass their own validation', () => {
    const fields = (schema: unknown): TSchema[] => {
      if (typeof schema !== 'object' || schema === null) return []
      return [...('default' in schema ? [schema as TSchema] : []), ...Object.values(schema).flatMap(fields)]
    }
    const defaults = SERVED.flatMap(({ route: { operationId, query, headers, body } }) =>
      fields([query, headers, body]).map((schema) => ({ operationId, schema })),
    )

    assert.ok(defaults.length > 20)
    for (const { operationId, schema } of defaults) {
      const value = (schema as { default: unknown }).default
      const check = jsonCheck('body', Type.Object({ value: schema }))
      assert.doesNotThrow(() => check({ value }), `${operationId}: ${JSON.stringify(value)}`)
    }
  })

  for (const { route, path } of SERVED) {
    it(`declare parameters, body and response schemas consistently for ${route.operationId}`, () => {
      const { success, params, body, stream, query, headers, also = {} } = route
      const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
      const declared = Object.keys((params as { properties?: object } | undefined)?.properties ?? {})

      assert.deepEqual(declared.toSorted(), named.toSorted(), 'path parameters')
      assert.ok(
        success.schema ?? success.contentType ?? (route.internal || success.status === 204),
        'the success response needs a schema or a content type',
      )
      assert.ok(!(body && stream), 'a body is either parsed or streamed')
      assert.ok(
        route.method !== 'GET' || !(body || stream || route.idempotent || route.admitsWork),
        'a GET must be read-only',
      )
      for (const schema of [params, body, query, headers, success.schema, ...Object.values(also)]) {
        // Schemas compile on first use; an invalid one must fail here rather than during a request.
        if (schema) compile(schema)
      }
    })
  }
})

describe('the OpenAPI document', () => {
  it('matches the checked-in docs/openapi/hearth.json (npm run openapi:write)', async () => {
    const now = JSON.stringify(toOpenApi(FAMILIES))
    const then = JSON.stringify(JSON.parse(await readFile(CHECKED_IN, 'utf8')))

    // We don't use `assert.equal`, because a diff of two whole documents is useless.
    assert.ok(now === then, 'docs/openapi/hearth.json is out of date')
  })

  it('lists a response for every error status that an operation can return', () => {
    const { paths } = toOpenApi(FAMILIES) as { paths: Record<string, Record<string, Operation>> }
    for (const { route, path } of SERVED) {
      if (route.internal || route.preview) continue
      const operation = paths[path]?.[route.method.toLowerCase()]

      assert.equal(operation?.operationId, route.operationId)
      for (const code of errorCodesOf(route)) {
        const { status } = new ApiError(code, '')
        assert.ok(operation?.responses[status], `${route.operationId} ${status}`)
      }
    }
  })

  it('names the contract version', () => {
    const { openapi, info } = toOpenApi(FAMILIES) as { openapi: string; info: { version: string } }

    assert.match(openapi, /^3\.1\./)
    assert.equal(info.version, '0.1.0')
  })

  it('includes preview routes only on request', () => {
    const named = (features: string[]): string[] => {
      const { paths, components } = toOpenApi(FAMILIES, { features }) as Record<'paths', object> & {
        components: { schemas: object }
      }
      const names = [...Object.keys(paths), ...Object.keys(components.schemas)]
      return names.filter((name) => /webhook/i.test(name))
    }
    const preview = SERVED.filter(({ route }) => route.preview === 'webhooks').map(({ path }) => path)

    assert.deepEqual(named([]), [])
    assert.ok(preview.includes('/api/v1/admin/webhooks/backlog'))
    for (const path of preview) assert.ok(named(['webhooks']).includes(path), path)
  })

  it('is served along with a page that loads nothing from other origins', async () => {
    await using api = await startApi()

    const document = await api.call('GET', '/openapi.json')
    const page = await api.call('GET', '/docs')
    const files = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, file]) => file)

    assert.equal(document.body.openapi, '3.1.0')
    assert.equal(
      (
        await api.call('GET', '/openapi.json', {
          headers: { 'if-none-match': String(document.headers.etag) },
        })
      ).status,
      304,
    )
    assert.match(String(page.headers['content-security-policy']), /^default-src 'none'/)
    assert.doesNotMatch(page.text, /https?:/)
    const folder = await fetch(`${api.baseUrl}/docs/`)
    assert.deepEqual([folder.url, folder.status], [`${api.baseUrl}/docs`, 200])
    assert.equal(files.length, 4)
    for (const file of files) {
      const { status, text } = await api.call('GET', `/${file}`)
      assert.equal(status, 200, file)
      assert.ok(text.length > 0)
    }
    assert.equal((await api.call('GET', '/docs/constructor')).status, 404)
  })
})
