import Type from 'typebox'
import { ApiError } from '../../../../../domain/errors.ts'
import { route } from '../../../../http/route.ts'
import { withdrawTool } from '../../../../tools/register.ts'

export const removeTool = route({
  operationId: 'removeTool',
  summary: 'Withdraw a tool; one of the catalog stays withdrawn',
  method: 'DELETE',
  path: '/admin/tools/{slug}',
  auth: 'operations-key',
  params: Type.Object({ slug: Type.String({ minLength: 1, maxLength: 100 }) }),
  success: { status: 204 },
  errors: ['not_found'],

  async handler({ params: { slug } }, { db, now }) {
    const isDone = await db.transaction().execute((trx) => withdrawTool(trx, slug, now()))
    if (!isDone) throw new ApiError('not_found', 'there is no tool with this name')
  },
})
