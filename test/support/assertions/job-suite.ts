import type { LeaseRow } from '../../../db/tables/nodes.ts'
import type { AnyBody } from '../servers/api.ts'
import { type NodeProcess, startNodeProcess } from '../servers/nodes/node-process.ts'
import { startControlOnly, type TrainingWorld } from '../servers/training-workflow.ts'
import { until } from './until.ts'

const RUNS = '/api/builder/v1/training/runs'

/** Helpers for tests of jobs on real nodes; each test has its own account. */
export interface JobSuite {
  readonly world: TrainingWorld
  readonly key: string
  readonly accountId: string
  /** Returns the body of a GET under the runs route: `<id>`, `<id>/events`, ... */
  readonly get: (path: string) => Promise<AnyBody>
  /** Returns the event types of a job, oldest first. */
  readonly types: (jobId: string) => Promise<string[]>
  /** Returns the log messages of a job, oldest first. */
  readonly messages: (jobId: string) => Promise<string[]>
  readonly reached: (jobId: string, status: string, timeoutMs?: number) => Promise<void>
  /** Returns the body of a POST under the runs route: `<id>:pause`, ... */
  readonly post: (path: string) => Promise<AnyBody>
  readonly cancel: (jobId: string) => Promise<AnyBody>
  /** Waits until the lease is revoked and the node has reported that none of the work is still running. */
  readonly released: (jobId: string) => Promise<void>
  readonly startNode: (name: string) => Promise<NodeProcess>
}

/**
 * Sets up a suite with a gateway, Temporal and a control worker for all of its tests; each test starts its own nodes.
 * `env` is called after the hooks that were registered before this call.
 */
export function jobSuite(env: () => NodeJS.ProcessEnv = () => ({})): JobSuite {
  let world: TrainingWorld
  let control: AsyncDisposable
  let account: { key: string; accountId: string }
  before(async () => {
    ;({ world, control } = await startControlOnly(env()))
  })
  after(async () => {
    await control[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    account = await world.api.account()
  })
  const get = async (path: string) =>
    (await world.api.call('GET', `${RUNS}/${path}`, { key: account.key })).body
  const post = async (path: string) =>
    (await world.api.call('POST', `${RUNS}/${path}`, { key: account.key })).body
  return {
    get world() {
      return world
    },
    get key() {
      return account.key
    },
    get accountId() {
      return account.accountId
    },
    get,
    types: async (jobId) =>
      (await get(`${jobId}/events`)).events.map(({ event_type }: { event_type: string }) => event_type),
    messages: async (jobId) =>
      (await get(`${jobId}/logs`)).logs.map(({ message }: { message: string }) => message),
    reached: (jobId, status, timeoutMs) => until(async () => (await get(jobId)).status === status, timeoutMs),
    post,
    cancel: (jobId) => post(`${jobId}/cancel`),
    released: (jobId) =>
      until(async () => {
        const lease: LeaseRow | undefined = await world.api.database.db
          .selectFrom('lease')
          .selectAll()
          .where('subject_id', '=', jobId)
          .executeTakeFirst()
        return lease?.state === 'revoked' && lease.released_at !== null
      }),
    startNode: (name) => startNodeProcess(world.api, name),
  }
}
