import Type from 'typebox'
import { ApiError } from '../../../../../domain/errors.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { withdrawTool } from '../../../../tools/register.ts'

export const removeTool = route({
  operationId: 'removeTool',
  summary: 'Withdraw a tool; a tool of the catalog stays withdrawn',
  method: 'DELETE',
  path: '/admin/tools/{slug}',
  auth: 'operations-key',
  params: Type.Object({ slug: Type.String({ minLength: 1, maxLength: 100 }) }),
  success: { status: 204 },
  errors: ['not_found'],

  async handler({ params: { slug } }, { db, now }) {
    const isDone = await db.transaction().execute(async (trx) => {
      const isWithdrawn = await withdrawTool(trx, slug, now())
      const subject = { kind: 'tool', id: slug }
      if (isWithdrawn)
        await audit(trx, {
          action: 'removeTool',
          subject,
          before: { offered: true },
          after: { offered: false },
        })
      return isWithdrawn
    })
    if (!isDone) throw new ApiError('not_found', 'there is no tool with this name')
  },
})
