import type { NodeModel } from '../../schemas/nodes/node.ts'
import type { LoadedModel } from './loaded-model.ts'

/**
 * The maximum number of models in a report. Gateways check this many for deletion, so that the node can remove their
 * files.
 */
const MAX_REPORTED = 5_000
/** Gateways close a link on a message of more than 1 MB, and a report has other fields besides its models. */
const MAX_REPORT_BYTES = 512 * 1024

/**
 * Returns a node's report of its models. Its disk may contain thousands of small ones, so beyond the limits the least
 * recently used ones are left out. The node still finds them on its disk when work for them arrives.
 */
export function reportOf(models: Iterable<LoadedModel>): NodeModel[] {
  const now = Date.now()
  const shown = [...models].filter(({ state, retryAt }) => state !== 'cold' || retryAt > now)
  const all = shown.slice(0, MAX_REPORTED).map((model) => model.report())
  if (shown.length <= MAX_REPORTED && bytesOf(all) <= MAX_REPORT_BYTES) return all
  const isOnDisk = ({ state, sleeping }: LoadedModel) =>
    (state === 'evicted' && !sleeping) || state === 'cold'
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
