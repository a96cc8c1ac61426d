import { createKey } from './create-key.ts'
import { listKeys } from './list-keys.ts'
import { revokeKey } from './revoke-key.ts'
import { updateKey } from './update-key.ts'

export const keys = [listKeys, createKey, updateKey, revokeKey]
