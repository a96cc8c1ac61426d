import Type from 'typebox'
import { ApiError } from '../../../../domain/errors.ts'
import { ToolManifest } from '../../../../schemas/tool.ts'
import { etagOfDigest } from '../../../http/etag.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { toolsOf } from '../../../manifest/tools-of.ts'

export const getToolManifest = route({
  operationId: 'getToolManifest',
  summary: 'Get a tool that the account may call',
  method: 'GET',
  path: '/mcp/manifest/{slug}',
  auth: 'api-key',
  params: Type.Object({ slug: Type.String({ minLength: 1, maxLength: 200 }) }),
  success: { status: 200, schema: ToolManifest },
  isLong: true,
  errors: ['not_found'],
  etag: true,
  forLimitedKeys: true,

  async handler({ caller, params: { slug } }, services) {
    const list = await toolsOf(services, caller)
    const tool = list.find(slug)
    if (!tool) throw new ApiError('not_found', 'there is no tool with this name that you may call')
    const [text] = await Array.fromAsync(services.tools.texts.of([tool]))
    return reply(200, text, {
      etag: `W/${etagOfDigest(tool.digest.toString('base64url'))}`,
      'cache-control': 'private, no-cache',
      'content-type': 'application/json; charset=utf-8',
    })
  },
})
