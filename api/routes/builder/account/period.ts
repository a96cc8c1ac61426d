import type { Period } from '../../../../db/repositories/platform/ledger-reports.ts'
import { invalid } from '../../../../domain/errors.ts'

/** Returns a query's period; throws a 422 when it ends before it begins. */
export function periodOf({ from, to }: { from?: string; to?: string }): Period {
  const period = {
    from: from === undefined ? undefined : new Date(from),
    until: to === undefined ? undefined : new Date(to),
  }
  if (period.from && period.until && period.until < period.from)
    throw invalid(['query', 'to'], 'must not be before "from"')
  return period
}
