import Type from 'typebox'
import { Uuid } from '../../../../schemas/common.ts'

export const LeaseParams = Type.Object({ lease_token: Uuid })
