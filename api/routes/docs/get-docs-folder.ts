import { reply } from '../../http/reply.ts'
import { route } from '../../http/route.ts'

/** The page refers to its assets by relative paths, so it needs a single URL. */
export const getDocsFolder = route({
  operationId: 'getDocsFolder',
  summary: 'Redirect to the API documentation page from its URL with a trailing slash',
  method: 'GET',
  path: '/docs/',
  auth: 'none',
  internal: true,
  success: { status: 308 },
  handler: () => reply(308, undefined, { location: '../docs' }),
})
