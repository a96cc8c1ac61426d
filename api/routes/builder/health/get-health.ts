import { Health } from '../../../../schemas/health.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'

export const getHealth = route({
  operationId: 'getHealth',
  summary: 'Check whether the service and its dependencies are up',
  method: 'GET',
  path: '/health',
  auth: 'none',
  success: { status: 200, schema: Health },
  also: { 503: Health },

  async handler(_request, { health }) {
    const seen = await health.check()
    return reply(seen.status === 'unavailable' ? 503 : 200, seen)
  },
})
