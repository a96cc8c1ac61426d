import { request } from 'undici'
import { hearth, HearthError } from '../../client/index.ts'
import { VERSION } from '../../platform/version.ts'
import type { Health } from '../../schemas/health.ts'
import type { NodeView } from '../../schemas/nodes/node.ts'
import type { Overview } from '../../schemas/operations.ts'
import { AdminClient } from '../admin-client.ts'
import { CliError } from '../cli-error.ts'
import {
  DISK_TODO,
  formatDiskFault,
  formatGateFault,
  gateTodo,
  GPU_TODO,
  GPU_RESTRICTION_TODO,
  formatGpuFault,
  formatGpuRestriction,
} from '../nodes/faults.ts'
import type { Platform } from '../platform.ts'
import { type Check, ok, warning, wrong } from './check.ts'

const RESPONSE_TIMEOUT_MS = 5_000
/** Tolerates the network latency and the whole-second precision of the `Date` header. */
const MAX_CLOCK_SKEW_MS = 5_000

/** Checks a platform over the network: health, version, clock, keys and nodes. */
export async function checkPlatform(platform: Platform): Promise<Check[]> {
  const { baseUrl, baseUrlFrom } = platform
  const about = 'Platform'
  const answer = await healthAt(baseUrl).catch((err: unknown) => err as Error)
  if (answer instanceof Error)
    return [
      wrong(
        about,
        `cannot reach ${baseUrl} (${answer.message}), the URL from ${baseUrlFrom}`,
        'start it with `npm start`, or pass another URL with --base-url',
      ),
    ]
  if (!answer.health)
    return [
      wrong(
        about,
        `${baseUrl} returned ${answer.status} with a body that Hearth doesn't send`,
        'check the URL and any proxies in between',
      ),
    ]
  return [
    checkHealth(baseUrl, answer.health),
    ...checkVersion(answer.health),
    checkClock(answer),
    await checkKey(platform),
    ...(await checkOperations(platform)),
  ]
}

interface HealthAnswer {
  status: number
  health: Health | undefined
  date: number
  at: number
}

async function healthAt(baseUrl: string): Promise<HealthAnswer> {
  const { statusCode, headers, body } = await request(`${baseUrl}/api/builder/v1/health`, {
    headersTimeout: RESPONSE_TIMEOUT_MS,
    bodyTimeout: RESPONSE_TIMEOUT_MS,
  })
  const text = await body.text()
  return {
    status: statusCode,
    health: healthIn(text),
    date: Date.parse(String(headers['date'])),
    at: Date.now(),
  }
}

function healthIn(text: string): Health | undefined {
  try {
    const health = JSON.parse(text) as Partial<Health>
    return health.database && health.temporal ? (health as Health) : undefined
  } catch {
    return undefined
  }
}

function checkHealth(
  baseUrl: string,
  // Older gateways omit `reasons`.
  { status, version, database, temporal, reasons = [] }: Omit<Health, 'reasons'> & Partial<Health>,
): Check {
  const parts = [`database ${database.status}, Temporal ${temporal.status}`, ...reasons].join('; ')
  const message = `${baseUrl} is ${status}, version ${version}: ${parts}`
  if (status === 'ok') return ok('Platform', message)
  const todo =
    'check the logs of the unreachable services, and free space on full disks; accepted work waits and is not lost'
  return status === 'degraded' ? warning('Platform', message, todo) : wrong('Platform', message, todo)
}

const checkVersion = ({ version }: Health): Check[] =>
  version === VERSION
    ? []
    : [
        warning(
          'Version',
          `the platform is ${version}, this CLI is ${VERSION}`,
          'use a CLI of the same version',
        ),
      ]

function checkClock({ date, at }: HealthAnswer): Check {
  if (Number.isNaN(date))
    return warning('Clocks', 'the platform returned no time', 'look for a proxy that removes the Date header')
  const off = Math.abs(at - date)
  return off < MAX_CLOCK_SKEW_MS
    ? ok('Clocks', 'the clocks of this machine and the platform agree')
    : wrong(
        'Clocks',
        `the clocks of this machine and the platform differ by ${Math.round(off / 1000)} s`,
        'synchronize both with NTP: signed URLs, webhooks and nodes are rejected when clocks differ',
      )
}

async function checkKey({ baseUrl, apiKey }: Platform): Promise<Check> {
  const about = 'API key'
  if (!apiKey) return warning(about, `there is no key for ${baseUrl}`, 'npx hearth login')
  try {
    const { account, role, key } = await hearth({ baseUrl, apiKey: apiKey.text, tries: 1 }).me()
    const expiry = key.expires_at === null ? '' : `, until ${key.expires_at}`
    return ok(about, `from ${apiKey.from}: account ${account.name}, role ${role}${expiry}`)
  } catch (err) {
    if (!(err instanceof HearthError)) throw err
    const message = `from ${apiKey.from}: ${err.message}`
    return wrong(
      about,
      message,
      err.status === 401 ? 'use another key with npx hearth login' : 'try again when the platform is healthy',
    )
  }
}

/** The attention codes that `checkNodes` already reports per node. */
const OF_NODES: ReadonlySet<string> = new Set([
  'nodes_offline',
  'gate_fault',
  'gpus_unusable',
  'node_disk_full',
])

async function checkOperations({ baseUrl, operationsKey }: Platform): Promise<Check[]> {
  const about = 'Nodes'
  if (!operationsKey)
    return [
      ok(about, 'not checked: this requires the operations key (HEARTH_OPERATIONS_KEY, --operations-key)'),
    ]
  const client = new AdminClient(baseUrl, operationsKey.text)
  try {
    const [nodes, { attention }] = await Promise.all([
      client.all<NodeView>('/nodes', 'nodes'),
      client.call<Overview>('GET', '/overview'),
    ])
    const seen = attention.filter(({ kind }) => !OF_NODES.has(kind))
    return [
      ...checkNodes(nodes),
      ...seen.map(({ severity, kind, message, subjects }) =>
        severity === 'critical'
          ? wrong('Attention', message, subjects.join(', ') || kind)
          : warning('Attention', message, subjects.join(', ') || kind),
      ),
    ]
  } catch (err) {
    if (err instanceof CliError)
      return [wrong(about, err.message, 'check HEARTH_OPERATIONS_KEY or --operations-key')]
    throw err
  }
}

const MAX_FAULTS_SHOWN = 3
const MAX_FAULT_LENGTH = 160

/** Returns the first faults of a node, deduplicated, one line each; `nodes show` lists all of them. */
function inShort(faults: readonly string[]): string[] {
  const different = [...new Set(faults.map((fault) => fault.split('\n', 1)[0] ?? ''))]
  const more = different.length - MAX_FAULTS_SHOWN
  const shown = different
    .slice(0, MAX_FAULTS_SHOWN)
    .map((fault) => (fault.length > MAX_FAULT_LENGTH ? `${fault.slice(0, MAX_FAULT_LENGTH)}...` : fault))
  return more > 0 ? [...shown, `and ${more} more`] : shown
}

/** Checks the nodes from the state that the platform reports. */
export function checkNodes(nodes: readonly NodeView[]): Check[] {
  if (nodes.length === 0)
    return [
      wrong(
        'Nodes',
        'the platform has no nodes, so it can neither train nor serve models',
        'npx hearth node-token shows how to add one',
      ),
    ]
  return nodes.map((node) => {
    const about = `Node ${node.name}`
    const faults = inShort([
      ...node.models.flatMap(({ model_key, error }) => (error ? [`model ${model_key}: ${error}`] : [])),
      ...node.environments.flatMap(({ name, error }) => (error ? [`environment ${name}: ${error}`] : [])),
    ])
    const { gpu_restriction } = node.inventory
    const unused = gpu_restriction ? `; ${formatGpuRestriction(gpu_restriction)}` : ''
    const message = `${node.status}, last seen ${node.last_seen_at}${unused}`
    if (node.status === 'offline')
      return wrong(about, message, `restart it, or \`npx hearth nodes remove ${node.node_id}\``)
    if (node.gate_fault)
      return wrong(about, `${message}, but ${formatGateFault(node.gate_fault)}`, gateTodo(node.gate_fault))
    if (node.gpu_fault) return wrong(about, `${message}, but ${formatGpuFault(node.gpu_fault)}`, GPU_TODO)
    if (node.disk_fault) return wrong(about, `${message}, but ${formatDiskFault(node.disk_fault)}`, DISK_TODO)
    if (node.status === 'draining') return warning(about, message, `npx hearth nodes resume ${node.node_id}`)
    if (gpu_restriction?.ignored.length) return warning(about, message, GPU_RESTRICTION_TODO)
    return faults.length > 0
      ? warning(about, `${message}; ${faults.join('; ')}`, `npx hearth nodes show ${node.node_id}`)
      : ok(about, message)
  })
}
