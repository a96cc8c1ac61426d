import { reply } from '../../http/reply.ts'
import { route } from '../../http/route.ts'
import { PAGE, pageHeaders } from './page.ts'

export const getDocs = route({
  operationId: 'getDocs',
  summary: 'Get the interactive documentation page of this API',
  method: 'GET',
  path: '/docs',
  auth: 'none',
  internal: true,
  success: { status: 200, contentType: 'text/html' },
  handler: () => reply(200, Buffer.from(PAGE), pageHeaders('text/html; charset=utf-8')),
})
