import { addMemoryEntry } from './add-memory-entry.ts'
import { clearMemory } from './clear-memory.ts'
import { deleteMemoryEntry } from './delete-memory-entry.ts'
import { exportMemory } from './export-memory.ts'
import { getMemoryStatus } from './get-memory-status.ts'
import { listMemoryEntries } from './list-memory-entries.ts'
import { recallMemory } from './recall-memory.ts'

export const memory = [
  getMemoryStatus,
  listMemoryEntries,
  addMemoryEntry,
  deleteMemoryEntry,
  clearMemory,
  exportMemory,
  recallMemory,
]
