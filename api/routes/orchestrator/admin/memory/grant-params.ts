import Type from 'typebox'
import { Uuid } from '../../../../../schemas/common.ts'
import { MemoryAccess } from '../../../../../schemas/memory.ts'

export const GrantParams = Type.Object({ key_id: Uuid, access: MemoryAccess })
