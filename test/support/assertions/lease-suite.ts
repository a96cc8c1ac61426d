import { createRun, readyDataset } from '../builders/training.ts'
import { type Answer, type AnyBody, startApi, type TestApi } from '../servers/api.ts'
import { type SignedNode, signedNode } from '../servers/nodes/signed-node.ts'

const RUNS = '/api/builder/v1/training/runs'

/** Helpers for tests of claims and leases; each test has its own account and dataset. */
export interface LeaseSuite {
  readonly api: TestApi
  readonly accountId: string
  readonly key: string
  readonly datasetId: string
  /** Two nodes that sign their own requests. */
  readonly node: SignedNode
  readonly other: SignedNode
  readonly newJob: (body?: object) => Promise<string>
  readonly claim: (by: SignedNode, jobId: string, body?: object) => Promise<Answer<AnyBody>>
  readonly lease: (by: SignedNode, token: string, verb: string, body?: object) => Promise<Answer<AnyBody>>
  readonly events: (jobId: string) => Promise<{ event_type: string; detail: string }[]>
  /** Expires a lease. */
  readonly expire: (token: string) => Promise<unknown>
}

/** Sets up a suite with a gateway and two nodes for all of its tests. */
export function leaseSuite(): LeaseSuite {
  let shared: { api: TestApi; node: SignedNode; other: SignedNode }
  let own: { accountId: string; key: string; datasetId: string }
  before(async () => {
    const api = await startApi()
    shared = { api, node: await signedNode(api, 'first'), other: await signedNode(api, 'second') }
  })
  after(() => shared.api[Symbol.asyncDispose]())
  beforeEach(async () => {
    const account = await shared.api.account()
    own = { ...account, datasetId: await readyDataset(shared.api, account.accountId) }
  })
  return {
    get api() {
      return shared.api
    },
    get node() {
      return shared.node
    },
    get other() {
      return shared.other
    },
    get accountId() {
      return own.accountId
    },
    get key() {
      return own.key
    },
    get datasetId() {
      return own.datasetId
    },
    newJob: (body) => createRun(shared.api, own.key, { dataset_id: own.datasetId, ...body }),
    claim: (by, jobId, body = {}) => by.post(`/api/v1/jobs/${jobId}/claim`, body),
    lease: (by, token, verb, body = {}) => by.post(`/api/v1/leases/${token}:${verb}`, body),
    events: async (jobId) =>
      (await shared.api.call('GET', `${RUNS}/${jobId}/events`, { key: own.key })).body.events,
    expire: (token) =>
      shared.api.database.db
        .updateTable('lease')
        .set({ expires_at: new Date(Date.now() - 1_000) })
        .where('token', '=', token)
        .execute(),
  }
}
