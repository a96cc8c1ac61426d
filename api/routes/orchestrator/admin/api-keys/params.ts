import Type from 'typebox'
import { Uuid } from '../../../../../schemas/common.ts'

export const params = Type.Object({ account_id: Uuid })
