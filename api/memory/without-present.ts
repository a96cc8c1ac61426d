import type { Kysely } from 'kysely'
import * as memoryEntryRepository from '../../db/repositories/memory/entries.ts'
import type { Database } from '../../db/tables.ts'
import { memoryTokens } from '../../domain/memory/message.ts'
import type { SecretBox } from '../../platform/secret-box.ts'
import type { NewMemory } from './memory.ts'

/**
 * Returns the entries that a memory doesn't have yet. Two entries are equal if they have the same text and source, and
 * the same time if the new entry has one. Superseded entries count, because a repeated import must not bring them back.
 * Texts are encrypted, so we decrypt those of the same length to compare them.
 */
export async function withoutPresent(
  db: Kysely<Database>,
  secretBox: SecretBox,
  namespaceRef: { accountId: string; namespaceId: string },
  entries: readonly NewMemory[],
): Promise<NewMemory[]> {
  const among = entries.map(({ text, source }) => ({ source, tokens: memoryTokens(text) }))
  const similar = await memoryEntryRepository.listSimilarEntries(db, namespaceRef, among)
  const times = new Map<string, Set<number | undefined>>()
  const note = (source: string, text: string, time: number | undefined) => {
    const name = nameOf(source, text)
    times.set(name, (times.get(name) ?? new Set()).add(time))
  }
  for (const { id, sealed, source, created_at } of similar)
    note(source, secretBox.open(sealed, `memory_entry/${id}`).toString(), created_at.getTime())

  return entries.filter(({ text, source, createdAt }) => {
    const time = createdAt?.getTime()
    const known = times.get(nameOf(source, text))
    if (known && (time === undefined || known.has(time))) return false
    note(source, text, time)
    return true
  })
}

const nameOf = (source: string, text: string): string => JSON.stringify([source, text])
