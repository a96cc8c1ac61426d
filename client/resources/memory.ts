import type { Static } from 'typebox'
import type { PageQuery } from '../../schemas/common.ts'
import type {
  AddedMemoryEntry,
  AddMemoryEntry,
  MemoryEntry,
  MemoryStatus,
  RecalledMemory,
  RecallMemory,
} from '../../schemas/memory.ts'
import type { Operations } from '../operations.ts'

interface MemoryEntries {
  entries: MemoryEntry[]
  next_cursor: string | null
}

/** The account's memory, if the platform has the feature. */
export function memory(on: Operations) {
  return {
    status: on.call<[], MemoryStatus>({ id: 'getMemoryStatus', method: 'GET', path: '/memory/status' }),
    list: on.list<[], PageQuery, MemoryEntries, 'entries'>({
      id: 'listMemoryEntries',
      method: 'GET',
      path: '/memory/entries',
      items: 'entries',
    }),
    add: on.send<[], Static<typeof AddMemoryEntry>, Static<typeof AddedMemoryEntry>>({
      id: 'addMemoryEntry',
      method: 'POST',
      path: '/memory/entries',
      idempotent: true,
    }),
    delete: on.call<[entry_id: string], void>({
      id: 'deleteMemoryEntry',
      method: 'DELETE',
      path: '/memory/entries/{entry_id}',
    }),
    /** Deletes all entries; `all` confirms it. */
    clear: on.query<[], { all: true }, { deleted: number }>({
      id: 'clearMemory',
      method: 'DELETE',
      path: '/memory/entries',
    }),
    recall: on.send<[], Static<typeof RecallMemory>, Static<typeof RecalledMemory>>({
      id: 'recallMemory',
      method: 'POST',
      path: '/memory/recall',
      repeatable: true,
    }),
    /** Returns all entries as JSON lines. */
    export: on.call<[], string>({
      id: 'exportMemory',
      method: 'GET',
      path: '/memory/export',
      isText: true,
    }),
  }
}
