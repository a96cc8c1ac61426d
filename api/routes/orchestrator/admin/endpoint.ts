import Type from 'typebox'
import { ApiError } from '../../../../domain/errors.ts'
import { Uuid } from '../../../../schemas/common.ts'

export const params = Type.Object({ endpoint_id: Uuid })

/** The 404 of operator routes; operators see the endpoints of every account. */
export const endpointNotFound = (): ApiError => new ApiError('not_found', 'there is no endpoint with this id')
