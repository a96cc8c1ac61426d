import { reply } from '../../http/reply.ts'
import { route } from '../../http/route.ts'

/** The page refers to its assets by relative paths, so it needs a single address. */
export const getDocsFolder = route({
  operationId: 'getDocsFolder',
  summary: 'The same page under the address that people may type',
  method: 'GET',
  path: '/docs/',
  auth: 'none',
  internal: true,
  success: { status: 308 },
  handler: () => reply(308, undefined, { location: '../docs' }),
})
