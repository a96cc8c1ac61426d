import type { Kysely } from 'kysely'
import * as memorySnapshotRepository from '../../db/repositories/memory/snapshots.ts'
import * as taskMemoryRepository from '../../db/repositories/memory/task-memory.ts'
import type { MemoryReader, MemoryMiss } from '../../db/repositories/memory/task-memory.ts'
import type { Database } from '../../db/tables.ts'
import {
  HEAD_TOKENS,
  memoryText,
  queryOf,
  withinBudget,
  leadingMessage,
} from '../../domain/memory/message.ts'
import { byNearness } from '../../domain/memory/nearest.ts'
import { firstElement, memberBytes, replaceAt, spliceMembers } from '../../platform/json-bytes.ts'
import type { Logger } from '../../platform/log.ts'
import type { SecretBox } from '../../platform/secret-box.ts'
import { emit } from '../events.ts'
import type { MemoryRegistry } from './memory-registry.ts'
import type { RequestMemory } from './memory.ts'
import type { Nearness } from './nearness.ts'

/** The number of candidate entries, from which we choose those that fit the budget. */
const CANDIDATES = 60
/** How long a request waits for its memory before it runs without it. */
const MAX_WAIT_MS = 2_000

/** The dependencies of a request's memory. */
export interface GrantedMemoryDeps {
  readonly db: Kysely<Database>
  readonly log: Logger
  readonly secretBox: SecretBox
  readonly known: Pick<MemoryRegistry, 'find' | 'during'>
  readonly nearness: Pick<Nearness, 'find' | 'forget'>
  /** The estimated tokens of memory that a request may get. */
  readonly budget: number
}

/** The memory that a request's key may read under its grant. */
export class GrantedMemory implements RequestMemory {
  readonly #deps: GrantedMemoryDeps
  readonly #reader: MemoryReader
  readonly #snapshotId: string | undefined
  #isGiven = false
  #isRefused = false

  /** @param snapshotId the snapshot attached at admission; the newest one if absent. */
  constructor(deps: GrantedMemoryDeps, reader: MemoryReader, snapshotId?: string) {
    this.#deps = deps
    this.#reader = reader
    this.#snapshotId = snapshotId
  }

  get isGiven(): boolean {
    return this.#isGiven
  }

  async addTo(json: Buffer): Promise<Buffer> {
    this.#isGiven = false
    if (this.#isRefused) return json
    const { promise: late, reject } = Promise.withResolvers<never>()
    const tooLate = new Error('memory took too long')
    const timer = setTimeout(() => reject(tooLate), MAX_WAIT_MS)
    const taken = this.#take(json)
    try {
      const changed = await this.#deps.known.during(Promise.race([taken, late]))
      this.#isGiven = changed !== json
      return changed
    } catch (err) {
      // A read that is merely late would otherwise record later that the request got its memory.
      const reason = err === tooLate ? 'too_late' : 'unreadable'
      this.#note({ outcome: 'unavailable', reason }, taken, err)
      return json
    } finally {
      clearTimeout(timer)
    }
  }

  refused(): void {
    this.#isGiven = false
    this.#isRefused = true
    this.#note({ outcome: 'refused' })
  }

  async #take(json: Buffer): Promise<Buffer> {
    const { db, secretBox, known, nearness, budget } = this.#deps
    const { accountId } = this.#reader
    const view = known.find(accountId)
    const versionOf = () =>
      memorySnapshotRepository.findSnapshotVersion(db, { accountId, snapshotId: this.#snapshotId })
    const ids =
      view && (await nearness.find(accountId, view, queryOf(messagesOf(json)), CANDIDATES, versionOf))
    const take = (chosen: readonly string[] | undefined) =>
      taskMemoryRepository.takeMemory(db, this.#reader, {
        snapshotId: this.#snapshotId,
        ids: chosen,
        mostTokens: budget - HEAD_TOKENS,
        limit: CANDIDATES,
      })
    const taken = await take(ids)
    let { entries } = taken
    if (view) nearness.forget(view, taken.gone)
    // All of the nearest entries may have been deleted.
    if (ids && entries.length === 0) ({ entries } = await take(undefined))
    if (entries.length === 0) return json
    const inOrder = ids ? byNearness(entries, ids) : entries
    const remembered = withinBudget(inOrder, budget).map(({ id, sealed, created_at: at }) => ({
      text: secretBox.open(sealed, `memory_entry/${id}`).toString(),
      at,
    }))
    return withMemory(json, memoryText(remembered))
  }

  #note(without: MemoryMiss, after: Promise<unknown> = Promise.resolve(), err?: unknown): void {
    const { db, log } = this.#deps
    if (err !== undefined) emit(log, 'memory.unavailable', { err, task_id: this.#reader.taskId })
    after
      .catch(() => {})
      .then(() => taskMemoryRepository.noteWithout(db, this.#reader, without))
      .catch((cause: unknown) =>
        emit(log, 'memory.note_failed', { err: cause, task_id: this.#reader.taskId }),
      )
  }
}

/** Returns a chat request with the memory in its leading system message; all other bytes stay unchanged. */
function withMemory(json: Buffer, memory: string): Buffer {
  const messages = memberBytes(json, 'messages')
  const first = messages && firstElement(messages)
  if (!first) return json
  const given = JSON.parse(messages.toString('utf8', first.start, first.end)) as unknown
  const { message, replaces } = leadingMessage(given, memory)
  const text = JSON.stringify(message)
  const range = replaces ? first : { start: first.start, end: first.start }
  const changed = replaceAt(messages, range, Buffer.from(replaces ? text : `${text},`))
  return spliceMembers(json, { messages: changed.toString() })
}

/** Returns the messages of a chat request. */
function messagesOf(json: Buffer): unknown[] {
  const messages = memberBytes(json, 'messages')
  const parsed = messages === undefined ? [] : (JSON.parse(messages.toString()) as unknown)
  return Array.isArray(parsed) ? parsed : []
}
