import Type from 'typebox'
import { Uuid } from '../../../../../schemas/common.ts'

export const params = Type.Object({
  node_id: Uuid,
  model_key: Type.String({ minLength: 1, maxLength: 200 }),
})
