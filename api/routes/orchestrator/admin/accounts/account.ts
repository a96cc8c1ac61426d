import Type from 'typebox'
import { ApiError } from '../../../../../domain/errors.ts'
import { Uuid } from '../../../../../schemas/common.ts'

export const params = Type.Object({ account_id: Uuid })

/** The error for an account that does not exist. */
export const accountNotFound = (): ApiError => new ApiError('not_found', 'there is no account with this id')
