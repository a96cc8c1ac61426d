import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import * as accountRepository from '../../db/repositories/platform/accounts.ts'
import type { Database } from '../../db/tables.ts'
import { temporaryError } from '../../domain/errors.ts'
import { isGranted } from '../../domain/hub/grants.ts'
import { type HubClient, HubError, type HubRepoInfo } from '../../platform/hub/client.ts'

/** How long hub results are cached. */
const CACHE_TTL_MS = 60_000
const MAX_REMEMBERED = 2_000
/**
 * Limits the hub requests that one account may cause at this gateway, because the hub counts the requests of all
 * accounts together.
 */
const BURST = 300
const PER_SECOND = 2
const MAX_ACCOUNTS = 10_000

type SearchResult = Awaited<ReturnType<HubClient['search']>>

/** A repository, and whether the account may use it. */
export interface RepoAccess {
  info: HubRepoInfo
  /** False for a gated repository that an operator hasn't listed for the account. */
  isOpen: boolean
}

/**
 * The hub as an account may see it. Every repository lookup for an account must go through this class, because the
 * platform's token also opens repositories that only the operator may use. An account can use private and gated
 * repositories only if an operator lists them for it.
 */
export class HubReader {
  readonly #hub: HubClient
  readonly #db: Kysely<Database>
  readonly #searches = new LRUCache<string, Promise<SearchResult>>({ max: MAX_REMEMBERED, ttl: CACHE_TTL_MS })
  readonly #infos = new LRUCache<string, Promise<HubRepoInfo>>({ max: MAX_REMEMBERED, ttl: CACHE_TTL_MS })
  readonly #budgets = new LRUCache<string, { left: number; at: number }>({ max: MAX_ACCOUNTS })

  constructor(hub: HubClient, db: Kysely<Database>) {
    this.#hub = hub
    this.#db = db
  }

  /** Returns the ids of matching repositories, most downloaded first. */
  search(accountId: string, query: Parameters<HubClient['search']>[0]): Promise<SearchResult> {
    return this.#remembered(this.#searches, JSON.stringify(query), () => {
      this.#charge(accountId)
      return this.#hub.search(query)
    })
  }

  /** Returns a repository's state, at most a minute old, for lists. */
  async glance(accountId: string, repoId: string): Promise<RepoAccess> {
    const info = await this.#remembered(this.#infos, repoId, () => {
      this.#charge(accountId)
      return this.#hub.info(repoId)
    })
    return this.#as(accountId, info)
  }

  /** Returns the current state of a repository or one revision. Repositories private to others appear not to exist. */
  async see(accountId: string, repoId: string, revision?: string): Promise<RepoAccess> {
    this.#charge(accountId)
    return this.#as(accountId, await this.#hub.info(repoId, revision))
  }

  /** Returns a repository that the account is about to use; throws `gated_refused` if the account may not use it. */
  async open(accountId: string, repoId: string, revision?: string): Promise<HubRepoInfo> {
    const { info, isOpen } = await this.#as(accountId, await this.#hub.info(repoId, revision))
    if (isOpen) return info
    throw new HubError('gated_refused', 'this repository is gated and not available to your account')
  }

  async #as(accountId: string, info: HubRepoInfo): Promise<RepoAccess> {
    const isClosed = info.isPrivate || info.gated
    // Without a token, the hub itself returns only open repositories.
    if (!isClosed || !this.#hub.hasToken) return { info, isOpen: true }
    const account = await accountRepository.findAccount(this.#db, accountId)
    const isOpen = account !== undefined && isGranted(account.hub_repos, info.repoId)
    if (info.isPrivate && !isOpen) throw HubError.notFound()
    return { info, isOpen }
  }

  /** Concurrent callers share one request; failed requests are not cached. */
  #remembered<T extends object>(
    cache: LRUCache<string, Promise<T>>,
    key: string,
    ask: () => Promise<T>,
  ): Promise<T> {
    const known = cache.get(key)
    if (known) return known
    const request = ask()
    cache.set(key, request)
    request.catch(() => cache.delete(key))
    return request
  }

  #charge(accountId: string): void {
    const now = performance.now()
    const { left, at } = this.#budgets.get(accountId) ?? { left: BURST, at: now }
    const filled = Math.min(BURST, left + ((now - at) / 1_000) * PER_SECOND)
    this.#budgets.set(accountId, { left: Math.max(0, filled - 1), at: now })
    if (filled >= 1) return
    const wait = Math.ceil((1 - filled) / PER_SECOND)
    throw temporaryError(
      'rate_limited',
      `your account sends too many requests to the model hub; try again in ${wait} s`,
      wait,
    )
  }
}
