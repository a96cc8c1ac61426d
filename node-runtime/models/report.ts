import type { NodeModel } from '../../schemas/node.ts'
import type { LoadedModel } from './loaded-model.ts'

/** The number of models that gateways look through for deleted ones, whose files the node then removes. */
const MAX_REPORTED = 5_000
/** Gateways close a link that carries a message of 1 MB, and a report has more than its models. */
const MAX_REPORT_BYTES = 512 * 1024

/**
 * Returns what a node reports of its models. Thousands of small ones may lie on its disk: beyond the limits those are left
 * out that were used longest ago. They are still found there when work for them comes.
 */
export function reportOf(models: Iterable<LoadedModel>): NodeModel[] {
  const now = Date.now()
  const shown = [...models].filter(({ state, retryAt }) => state !== 'cold' || retryAt > now)
  const all = shown.slice(0, MAX_REPORTED).map((model) => model.report())
  if (shown.length <= MAX_REPORTED && bytesOf(all) <= MAX_REPORT_BYTES) return all
  const isOnDisk = ({ state }: LoadedModel) => state === 'evicted' || state === 'cold'
  const newestFirst = shown.toSorted(
    (a, b) => Number(isOnDisk(a)) - Number(isOnDisk(b)) || b.lastUsed - a.lastUsed,
  )
  const reported: NodeModel[] = []
  let bytes = 0
  for (const model of newestFirst.slice(0, MAX_REPORTED)) {
    const report = model.report()
    bytes += bytesOf(report) + 1
    if (bytes > MAX_REPORT_BYTES) break
    reported.push(report)
  }
  return reported
}

const bytesOf = (value: object): number => Buffer.byteLength(JSON.stringify(value))
