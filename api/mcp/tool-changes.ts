import { AsyncLocalStorage } from 'node:async_hooks'
import type { ServerEvent, ServerEventBus } from '@modelcontextprotocol/server'

interface Subscription {
  readonly accountId: string
  readonly listener: (event: ServerEvent) => void
}

/**
 * Notifies listening clients of changes to their account's tools. The protocol's server subscribes without naming an
 * account, so we use the account of the request that it is handling.
 */
export class ToolChanges implements ServerEventBus {
  readonly #subscriptions = new Set<Subscription>()
  readonly #account = new AsyncLocalStorage<string>()

  /** Handles a request on behalf of an account. */
  serve<T>(accountId: string, handle: () => T): T {
    return this.#account.run(accountId, handle)
  }

  subscribe(listener: (event: ServerEvent) => void): () => void {
    const accountId = this.#account.getStore()
    if (accountId === undefined) throw new Error('subscribe was called outside of a request')
    const subscription = { accountId, listener }
    this.#subscriptions.add(subscription)
    return () => this.#subscriptions.delete(subscription)
  }

  publish(event: ServerEvent): void {
    for (const { listener } of this.#subscriptions) listener(event)
  }

  /** Notifies an account's clients, or all clients, that their tools may have changed. */
  tell(accountId: string | undefined): void {
    for (const { accountId: own, listener } of this.#subscriptions) {
      if (accountId === undefined || accountId === own) listener({ kind: 'tools_list_changed' })
    }
  }
}
