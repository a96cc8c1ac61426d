import Type from 'typebox'
import { updateEndpoint } from '../../../db/repositories/endpoints.ts'
import { ApiError } from '../../../domain/errors.ts'
import { route } from '../../http/route.ts'
import { noEndpoint, ownEndpoint, usableEndpoint } from './access.ts'

export const deleteEndpoint = route({
  operationId: 'deleteEndpoint',
  summary: 'Delete an endpoint; its name is not given out again',
  method: 'DELETE',
  path: '/endpoints/{endpoint_id}',
  auth: 'api-key',
  params: Type.Object({ endpoint_id: Type.String({ minLength: 1, maxLength: 100 }) }),
  success: { status: 204 },
  errors: ['not_found', 'forbidden', 'conflict'],

  async handler({ caller: { accountId }, params: { endpoint_id } }, { db, now }) {
    const { is_base_model } = await usableEndpoint(db, accountId, endpoint_id)
    if (is_base_model) throw new ApiError('conflict', 'base models cannot be deleted')
    const { id } = await ownEndpoint(db, accountId, endpoint_id)

    const deleted = await db
      .transaction()
      .execute((trx) => updateEndpoint(trx, id, { deleted_at: now(), status: 'inactive' }, now()))
    if (!deleted) throw noEndpoint()
  },
})
