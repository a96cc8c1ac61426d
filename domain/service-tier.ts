import type { ServiceTier } from '../schemas/api-key.ts'

const RANK: Record<ServiceTier, number> = { flex: 0, default: 1, priority: 2 }

const isTier = (value: unknown): value is ServiceTier =>
  typeof value === 'string' && Object.hasOwn(RANK, value)

/**
 * Returns the service tier of a request: the one it names, `default` for any other value, and never above its key's
 * ceiling.
 */
export function tierOf(named: unknown, ceiling: ServiceTier = 'priority'): ServiceTier {
  const tier = isTier(named) ? named : 'default'
  return RANK[tier] > RANK[ceiling] ? ceiling : tier
}
