import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Connection } from '@temporalio/client'
import proto from '@temporalio/proto'
import pRetry from 'p-retry'
import { reasonOf } from '../../platform/reason.ts'
import { DIRECT_CHANNEL, type TemporalAccess } from '../../platform/temporal.ts'
import { StartError } from '../options.ts'
import type { ChildSpec } from '../processes/child.ts'
import { onPath } from '../processes/programs.ts'

/** The search attributes of workflows in the UI, all of type Keyword. */
const SEARCH_ATTRIBUTES = ['HearthAccount', 'HearthKind', 'HearthModel', 'HearthNode']

/**
 * The server hands out waiting tasks by priority, and round robin by fairness key, only with these values. Server 1.32
 * also drains a backlog that was written without them. docs/deployment.md describes what older servers need.
 */
const DYNAMIC_CONFIG = [
  'matching.useNewMatcher=true',
  'matching.enableFairness=true',
  // Each partition of a queue has its own order, so all new tasks go to a single one.
  'matching.numTaskqueueWritePartitions=1',
  // The development server reads namespaces every 2 s, and search attributes and Nexus endpoints on every use. Ours
  // exist before it starts, and an idle server without these reads uses a third less CPU.
  'system.namespaceCacheRefreshInterval="10s"',
  'system.forceSearchAttributesCacheRefreshOnRead=false',
  'system.forceNexusEndpointRefreshOnRead=false',
]

export interface TemporalServer {
  /** The SQLite file that holds the server's state. */
  file: string
  port: number
  uiPort: number
  cwd: string
  namespace: string
  /**
   * The number of partitions per queue that the server reads: 1, unless an earlier version may have left tasks in
   * others. Each partition costs an idle server CPU and memory; one instead of four saves a third.
   */
  partitions: number
}

/** Returns the command of the development server, which stores its state in one file. */
export function temporalChild(
  cli: string,
  { file, port, uiPort, cwd, namespace, partitions }: TemporalServer,
): ChildSpec {
  const args = [
    'server start-dev --ip 127.0.0.1 --log-level warn --log-format json'.split(' '),
    ['--port', String(port), '--ui-port', String(uiPort), '--db-filename', file, '--namespace', namespace],
    SEARCH_ATTRIBUTES.flatMap((name) => ['--search-attribute', `${name}=Keyword`]),
    [...DYNAMIC_CONFIG, `matching.numTaskqueueReadPartitions=${partitions}`].flatMap((value) => [
      '--dynamic-config-value',
      value,
    ]),
  ].flat()
  return serverChild('temporal', { cli, args, cwd })
}

/**
 * Returns the command of a server that only creates its schema in a new file. It needs no UI, no Hearth namespace and
 * no settings.
 */
export function schemaChild(cli: string, { file, port }: { file: string; port: number }): ChildSpec {
  const options = ['--headless', '--ip', '127.0.0.1', '--port', String(port), '--db-filename', file]
  const args = ['server', 'start-dev', ...options, '--log-level', 'warn', '--log-format', 'json']
  return serverChild('temporal-schema', { cli, args, cwd: dirname(file) })
}

interface Command {
  cli: string
  args: string[]
  cwd: string
}

/** Returns the child's spec. Where the system supports it, the child gets SIGTERM when this process dies. */
function serverChild(name: string, { cli, args, cwd }: Command): ChildSpec {
  const setpriv = process.platform === 'linux' ? onPath('setpriv') : undefined
  return {
    name,
    command: setpriv ?? cli,
    args: setpriv ? ['--pdeathsig=TERM', '--', cli, ...args] : args,
    // Half of Go's default GOGC: the heap is 30 MB, so more frequent collections cost little.
    env: { GOGC: '50', ...process.env },
    cwd,
    stopSignal: 'SIGTERM',
    echo: false,
  }
}

/** A Temporal server, how to access it, and Hearth's namespace. */
export interface TemporalService extends TemporalAccess {
  namespace: string
}

/** Returns a server on this machine. */
export const localPlace = (address: string, namespace: string): TemporalService => ({
  address,
  namespace,
  tls: false,
  metadata: {},
})

const NOT_FOUND = 5
/** A server that is starting may accept a call and never respond to it. */
const RESPONSE_TIMEOUT_MS = 10_000

/** The longest time until a server's frontend knows a new namespace; 10 s by default, and more on a busy machine. */
const NAMESPACE_TIMEOUT_MS = 60_000

/** How many days closed workflows are retained in a namespace that Hearth creates. */
const NAMESPACE_DAYS = 3

interface ReadyOptions {
  timeoutMs?: number
  makesNamespace?: boolean
  /** The log file of a server that this process started; errors then name this file instead of a setting. */
  log?: string
  /** Ends the wait with the signal's reason. */
  signal?: AbortSignal | undefined
}

/**
 * Waits until the server responds. Throws a `StartError` when it does not, or when the namespace does not exist and
 * must not be created.
 */
export async function temporalReady(
  { namespace, ...access }: TemporalService,
  { timeoutMs = 30_000, makesNamespace = false, log, signal }: ReadyOptions = {},
): Promise<void> {
  const { address } = access
  const describeOnce = async () => {
    const connection = await connect(access)
    try {
      const answerBy = Date.now() + Math.min(RESPONSE_TIMEOUT_MS, timeoutMs)
      await connection.withDeadline(answerBy, () =>
        connection.workflowService.describeNamespace({ namespace }),
      )
    } finally {
      await connection.close()
    }
  }
  try {
    await pRetry(describeOnce, {
      retries: Infinity,
      minTimeout: 100,
      factor: 1,
      maxRetryTime: timeoutMs,
      ...(signal && { signal }),
      shouldRetry: ({ error }) => makesNamespace || !isNotFound(error),
      // A server that is starting may not know its namespaces yet, so a missing namespace is retried.
      async onFailedAttempt({ error, retryDelay }) {
        if (!makesNamespace || !isNotFound(error) || retryDelay === 0) return
        await registerNamespace({ ...access, namespace }).catch(() => {})
        await sleep(400)
      },
    })
  } catch (cause) {
    signal?.throwIfAborted()
    if (log) {
      const seconds = Math.round(timeoutMs / 1000)
      throw new StartError(
        `The embedded Temporal server did not respond at ${address} within ${seconds} s (${reasonOf(cause)}); see ${log}.`,
        { cause },
      )
    }
    const problem = isNotFound(cause)
      ? `TEMPORAL_NAMESPACE: the server at ${address} has no namespace "${namespace}".`
      : `TEMPORAL_ADDRESS: no Temporal server responds at ${address} (${reasonOf(cause)}).`
    throw new StartError(problem, { cause })
  }
}

const connect = (access: TemporalAccess): Promise<Connection> =>
  Connection.connect({ ...access, channelArgs: DIRECT_CHANNEL, connectTimeout: 1000 })

const isNotFound = (err: unknown): boolean => (err as { code?: unknown }).code === NOT_FOUND

async function registerNamespace({ namespace, ...access }: TemporalService): Promise<void> {
  const connection = await connect(access)
  try {
    const { RegisterNamespaceRequest } = proto.temporal.api.workflowservice.v1
    const retention = { seconds: NAMESPACE_DAYS * 86_400 }
    await connection.workflowService.registerNamespace(
      RegisterNamespaceRequest.fromObject({ namespace, workflowExecutionRetentionPeriod: retention }),
    )
  } finally {
    await connection.close()
  }
}

/** Returns whether any process polls a task queue for workflows; throws when the server does not respond in time. */
export async function queueIsPolled(
  { namespace, ...access }: TemporalService,
  queue: string,
  timeoutMs = RESPONSE_TIMEOUT_MS,
): Promise<boolean> {
  const connection = await connect(access)
  try {
    const answer = await connection.withDeadline(Date.now() + timeoutMs, () =>
      connection.workflowService.describeTaskQueue({
        namespace,
        taskQueue: { name: queue },
        taskQueueType: 1,
      }),
    )
    return (answer.pollers ?? []).length > 0
  } finally {
    await connection.close()
  }
}

/**
 * Adds the search attributes to a server that the user runs. A server's frontend knows a namespace some seconds after it
 * was registered, so a missing one is retried.
 */
export const addSearchAttributes = (service: TemporalService): Promise<void> =>
  pRetry(() => addMissingAttributes(service), {
    retries: Infinity,
    minTimeout: 500,
    factor: 1,
    maxRetryTime: NAMESPACE_TIMEOUT_MS,
    shouldRetry: ({ error }) => isNotFound(error),
  })

async function addMissingAttributes({ namespace, ...access }: TemporalService): Promise<void> {
  const KEYWORD = 2
  const connection = await connect(access)
  try {
    const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace })
    const missing = SEARCH_ATTRIBUTES.filter((name) => !customAttributes?.[name])
    if (missing.length === 0) return
    const searchAttributes = Object.fromEntries(missing.map((name) => [name, KEYWORD]))
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes })
  } finally {
    await connection.close()
  }
}
