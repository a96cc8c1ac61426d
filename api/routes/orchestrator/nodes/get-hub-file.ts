import Type from 'typebox'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { askingHub } from '../../../hub/errors.ts'
import { assertStillNeeded, openHubFileGrant } from './hub-file-url.ts'

/** Headers of the hub's response that describe the bytes. */
const KEPT = ['content-length', 'content-range', 'accept-ranges', 'etag'] as const

export const getHubFile = route({
  operationId: 'getHubFile',
  summary: "Download a file from the model hub with the platform's own access",
  method: 'GET',
  path: '/hub-files/{grant}',
  // The URL is the credential.
  auth: 'none',
  internal: true,
  grant: ({ params }, services) => openHubFileGrant(services, (params as { grant: string }).grant).repoId,
  params: Type.Object({ grant: Type.String({ minLength: 1, maxLength: 4_000 }) }),
  success: { status: 200, contentType: 'application/octet-stream' },
  also: { 206: null },
  errors: ['forbidden', 'not_found', 'rate_limited', 'unavailable'],

  async handler({ params, req, signal }, services) {
    const { repoId, revision, path, reader } = openHubFileGrant(services, params.grant)
    await assertStillNeeded(services.db, reader)
    const { range } = req.headers
    const answer = await askingHub(services.hub.open(repoId, revision, path, { range, signal }))
    const kept = KEPT.flatMap((name) => {
      const value = answer.headers[name]
      return typeof value === 'string' ? [[name, value] as const] : []
    })
    return reply(answer.statusCode, answer.body, {
      'content-type': 'application/octet-stream',
      ...Object.fromEntries(kept),
    })
  },
})
