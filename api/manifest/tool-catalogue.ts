import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import { outsideAccounts } from '../../db/account-share.ts'
import type { CacheWatch } from '../../db/cache-watch.ts'
import * as endpointChangeRepository from '../../db/repositories/endpoints/changes.ts'
import type { Database } from '../../db/tables.ts'
import type { ToolFilter } from '../../domain/tools/filter.ts'
import type { Logger } from '../../platform/log.ts'
import { emit } from '../events.ts'
import { mergeTools, type ToolList } from './tool-list.ts'
import type { ReadTool, ToolReader } from './tool-reader.ts'
import { ToolSet } from './tool-set.ts'
import type { ToolTexts } from './tool-texts.ts'
import type { Tool } from './tool.ts'

/** The memory for accounts' tools, excluding public tools (stored once) and the tools' texts. */
const MAX_BYTES = 64 * 1024 * 1024
/** The memory that a tool uses, excluding its text. */
const TOOL_BYTES = 600
/**
 * The memory that one entry of a merged list uses, and the maximum number of lists per account, one per set of filters.
 */
const ENTRY_BYTES = 8
const MAX_LISTS = 32

interface CatalogueOptions {
  db: Kysely<Database>
  watch: Pick<CacheWatch, 'on' | 'isFresh'>
  log: Logger
  reader: ToolReader
  operations: readonly Tool[]
}

/** Called with the account whose tools may have changed, or `undefined` for all accounts. */
export type ToolsChanged = (accountId: string | undefined) => void

/** A set that is being read, with the endpoints that have changed since the read started. */
interface PendingRead {
  readonly changed: Set<string>
  isVoid: boolean
}

interface MergedToolList {
  own: number
  publics: number
  list: ToolList
}

/**
 * Caches accounts' tools. After a change, only the changed endpoints are read again. The cache is bypassed while we
 * can't see changes.
 */
export class ToolCatalogue {
  readonly #options: CatalogueOptions
  readonly #owns = new LRUCache<string, ToolSet>({
    maxSize: MAX_BYTES,
    sizeCalculation: (set) => this.#sizeOf(set),
  })
  #publics: ToolSet | undefined
  /** An account's merged lists, dropped together with its own tools. */
  readonly #merged = new WeakMap<ToolSet, LRUCache<string, MergedToolList>>()
  readonly #reading = new Map<string, { reading: PendingRead; set: Promise<ToolSet> }>()
  readonly #listeners = new Set<ToolsChanged>()
  /** The version of the endpoints that we have applied. */
  #version: number | undefined
  /** Counts change notifications; the sets include those up to `#applied`. */
  #heard = 1
  #applied = 0
  #refreshing: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined

  constructor(options: CatalogueOptions) {
    this.#options = options
    options.watch.on('endpoint', () => {
      this.#heard += 1
      // Before the first request there is nothing to refresh and no listener to notify.
      if (this.#version !== undefined) this.#refreshSoon()
    })
  }

  /** The texts of all tools. */
  get texts(): ToolTexts {
    return this.#options.reader.texts
  }

  /** Returns the tools that an account may call and all filters allow, synchronously if they are in memory. */
  list(accountId: string, filters: readonly ToolFilter[]): ToolList | Promise<ToolList> {
    const own = this.#heard === this.#applied ? this.#owns.get(accountId) : undefined
    return own && this.#publics && this.#options.watch.isFresh()
      ? this.#merge({ own, publics: this.#publics }, filters)
      : this.#read(accountId, filters)
  }

  /** Registers a listener for possible changes from now on; returns a function that removes it. */
  onChange(listener: ToolsChanged): () => void {
    this.#listeners.add(listener)
    if (this.#version === undefined) this.#refreshSoon()
    return () => this.#listeners.delete(listener)
  }

  async #read(accountId: string, filters: readonly ToolFilter[]): Promise<ToolList> {
    await this.#refresh()
    const { reader } = this.#options
    const [publics, own] = await Promise.all([
      this.#publics ?? outsideAccounts(() => this.#readSet(PUBLIC, () => reader.publics())),
      this.#owns.get(accountId) ?? this.#readSet(accountId, () => reader.own(accountId)),
    ])
    return this.#merge({ own, publics }, filters)
  }

  #merge({ own, publics }: { own: ToolSet; publics: ToolSet }, filters: readonly ToolFilter[]): ToolList {
    const lists = this.#listsOf(own)
    const key = filters.length === 0 ? '' : filters.map(({ id }) => id).join('\n')
    const known = lists.get(key)
    if (known?.own === own.stamp && known.publics === publics.stamp) return known.list
    const { operations } = this.#options
    const list = mergeTools({ operations, own, publics }, filters)
    lists.set(key, { own: own.stamp, publics: publics.stamp, list })
    return list
  }

  #listsOf(own: ToolSet): LRUCache<string, MergedToolList> {
    let lists = this.#merged.get(own)
    if (!lists) {
      lists = new LRUCache({ max: MAX_LISTS })
      this.#merged.set(own, lists)
    }
    return lists
  }

  /**
   * An account with too many tools for the memory counts as using all of it, so its tools aren't re-read on every
   * request.
   */
  #sizeOf(own: ToolSet): number {
    const entries = own.tools.length + (this.#publics?.tools.length ?? 0)
    return Math.min(MAX_BYTES, 1 + own.tools.length * TOOL_BYTES + entries * ENTRY_BYTES)
  }

  #refreshSoon(): void {
    this.#refresh().catch((err: unknown) => emit(this.#options.log, 'tools.refresh_failed', { err }))
  }

  /** Applies all changes committed before this call. */
  #refresh(): Promise<void> {
    // A running refresh may miss the latest change, so later callers share the next one.
    this.#next ??= this.#refreshing
      .catch(() => {})
      .then(() => {
        this.#next = undefined
        this.#refreshing = outsideAccounts(() => this.#apply())
        return this.#refreshing
      })
    return this.#next
  }

  async #apply(): Promise<void> {
    const heard = this.#heard
    const since = this.#version
    const { version, ids } = await endpointChangeRepository.readEndpointChanges(this.#options.db, since ?? 0)
    if (since !== undefined && since !== version) {
      if (ids) await this.#applyTo(ids)
      else this.#forget()
    }
    this.#version = version
    this.#applied = heard
  }

  async #applyTo(ids: readonly string[]): Promise<void> {
    for (const { reading } of this.#reading.values()) for (const id of ids) reading.changed.add(id)
    const tools = await this.#options.reader.byId(ids)
    const accounts = new Set<string>()
    let isPublic = false
    for (const tool of tools) {
      // Without the public tools in memory, any change may affect them.
      const isChanged = this.#publics?.put(tool.endpointId, tool.public) ?? true
      isPublic ||= isChanged
      const own = this.#owns.get(tool.accountId)
      if (!own || own.put(tool.endpointId, tool.own)) accounts.add(tool.accountId)
      if (own) this.#owns.set(tool.accountId, own)
    }
    if (isPublic) this.#tell(undefined)
    else for (const accountId of accounts) this.#tell(accountId)
  }

  /** Any endpoint may have changed, so drop everything and read it again. */
  #forget(): void {
    for (const { reading } of this.#reading.values()) reading.isVoid = true
    this.#owns.clear()
    this.#publics = undefined
    this.#tell(undefined)
  }

  #tell(accountId: string | undefined): void {
    for (const listener of this.#listeners) listener(accountId)
  }

  /** Reads a set; concurrent requests for the same set share the read. */
  #readSet(key: string, read: () => Promise<Tool[]>): Promise<ToolSet> {
    const known = this.#reading.get(key)
    if (known) return known.set
    const reading: PendingRead = { changed: new Set(), isVoid: false }
    const set = this.#readCurrent(reading, key, read).finally(() => this.#reading.delete(key))
    this.#reading.set(key, { reading, set })
    return set
  }

  async #readCurrent(reading: PendingRead, key: string, read: () => Promise<Tool[]>): Promise<ToolSet> {
    let set = new ToolSet(await read())
    while (reading.isVoid || reading.changed.size > 0) {
      const changed = [...reading.changed]
      reading.changed.clear()
      if (reading.isVoid) {
        reading.isVoid = false
        set = new ToolSet(await read())
      } else {
        for (const tool of await this.#options.reader.byId(changed)) putRead(set, key, tool)
      }
    }
    if (key === PUBLIC) this.#publics = set
    else this.#owns.set(key, set)
    return set
  }
}

/** The key of the public set; the key of every other set is its account's id. */
const PUBLIC = 'public'

function putRead(set: ToolSet, key: string, tool: ReadTool): void {
  if (key === PUBLIC) set.put(tool.endpointId, tool.public)
  else if (key === tool.accountId) set.put(tool.endpointId, tool.own)
}
