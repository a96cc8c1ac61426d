import type { PlanReasonCode } from '../../schemas/cohorts/plan.ts'
import type { NodeSnapshot } from '../placement/node-snapshot.ts'
import { NO_MEMORY } from './costs.ts'

/** Returns the reason code for a stage that fits no node, derived from the nodes' reasons. */
export function noNodeCode(excluded: ReadonlyMap<string, number>): PlanReasonCode {
  const reasons = [...excluded.keys()]
  if (reasons.includes(NO_MEMORY)) return 'memory'
  if (reasons.length > 0 && reasons.every((reason) => / not (?:cpu|gpu|xpu)$/.test(reason))) return 'hardware'
  return 'no_node_fits'
}

interface NodeAvailability {
  /** Names of the nodes that the stage lists, by id; excludes nodes that its account may not see. */
  names: ReadonlyMap<string, string>
  /** The connected nodes. */
  nodes: readonly Pick<NodeSnapshot, 'node_id'>[]
  /** Counts of connected nodes that cannot run the stage, by reason. */
  excluded: ReadonlyMap<string, number>
}

/** Explains why no node can run a stage, from the nodes it names and the reasons of the connected ones. */
export function whyNoNode(
  named: readonly string[] | undefined,
  { names, nodes, excluded }: NodeAvailability,
): string {
  const connected = new Set(nodes.map(({ node_id }) => node_id))
  const absent = (named ?? []).filter((id) => !connected.has(id))
  const offline = absent.flatMap((id) => names.get(id) ?? [])
  const unknown = absent.filter((id) => !names.has(id))
  const faults = [
    ...(offline.length > 0
      ? [`${listed(offline, 'node')} ${offline.length > 1 ? 'are' : 'is'} offline`]
      : []),
    ...unknown.map((id) => `no node has the id ${id}`),
  ]
  if (named && absent.length === named.length) {
    if (unknown.length === 0)
      return `it may only run on ${listed(offline, 'node')}, which ${offline.length > 1 ? 'are' : 'is'} offline`
    return `it may only run on the nodes that it names: ${faults.join(', ')}`
  }
  if (nodes.length === 0) return 'no node is connected'
  return [...faults, ...[...excluded].map(counted)].join(', ')
}

const listed = (names: readonly string[], noun: string): string => {
  const quoted = names.map((name) => `"${name}"`)
  return quoted.length > 1 ? `the ${noun}s ${quoted.join(', ')}` : `${noun} ${quoted[0]}`
}

/** Plural forms of the first words of reasons. */
const PLURAL: Readonly<Record<string, string>> = {
  is: 'are',
  has: 'have',
  was: 'were',
  belongs: 'belong',
  serves: 'serve',
}

function counted([reason, count]: readonly [string, number]): string {
  if (count === 1) return `1 node ${reason}`
  const [first = '', ...rest] = reason.replace('its own', 'their own').split(' ')
  return `${count} nodes ${[PLURAL[first] ?? first, ...rest].join(' ')}`
}
