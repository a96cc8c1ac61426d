import { BUILDER } from './api.ts'
import type { Me } from './types.ts'
import { useApi } from './use-api.ts'

const RANK: Record<string, number> = { viewer: 0, operator: 1, admin: 2 }
const IDENTITY_TTL_MS = 60_000

export const useMe = () => useApi<Me>(`${BUILDER}/me`, { every: IDENTITY_TTL_MS })

/**
 * Returns whether the key in use has at least this role, so that pages can hide buttons whose requests would be
 * rejected.
 */
export function useMay(least: 'operator' | 'admin'): boolean {
  const role = useMe().data?.role ?? 'viewer'
  return (RANK[role] ?? 0) >= (RANK[least] ?? 0)
}
