import { useSyncExternalStore } from 'react'

/**
 * Keys are stored as long as the tab is open. They're sent as headers, so no other page can make the browser use them.
 */
export type KeyName = 'api' | 'operations'

const STORED: Record<KeyName, string> = { api: 'hearth.key', operations: 'hearth.operations-key' }
const listeners = new Set<() => void>()

export const keyOf = (name: KeyName): string | null => sessionStorage.getItem(STORED[name])

export function setKey(name: KeyName, key: string | null): void {
  if (key === null) sessionStorage.removeItem(STORED[name])
  else sessionStorage.setItem(STORED[name], key)
  for (const listener of listeners) listener()
}

export function useKey(name: KeyName): string | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => keyOf(name),
  )
}

/** Reads the keys from a link that `npm start` printed, `#key=…&operations_key=…`, and removes them from the URL. */
export function readKeysFromUrl(): void {
  const given = new URLSearchParams(location.hash.slice(1))
  if (!given.has('key') && !given.has('operations_key')) return
  const key = given.get('key')
  const operations = given.get('operations_key')
  if (key) setKey('api', key)
  if (operations) setKey('operations', operations)
  history.replaceState(null, '', location.pathname + location.search)
}
