import { deleteAccountMemory } from './delete-account-memory.ts'
import { disableMemory } from './disable-memory.ts'
import { enableMemory } from './enable-memory.ts'
import { getAccountMemory } from './get-account-memory.ts'
import { grantMemory } from './grant-memory.ts'
import { importMemory } from './import-memory.ts'
import { listAccountMemories } from './list-account-memories.ts'
import { revokeMemory } from './revoke-memory.ts'

export const memoryAdmin = [
  listAccountMemories,
  getAccountMemory,
  enableMemory,
  disableMemory,
  deleteAccountMemory,
  importMemory,
  grantMemory,
  revokeMemory,
]
