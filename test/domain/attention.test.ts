import assert from 'node:assert/strict'
import { type AttentionFacts, attentionOf } from '../../domain/attention.ts'
import { changesBetween } from '../../domain/changes.ts'
import type { OpenWork } from '../../schemas/operations.ts'

const WELL: AttentionFacts = {
  killSwitch: { active: false, reason: null },
  database: { status: 'ok' },
  temporal: { status: 'ok' },
  storage: { database: 'ok', objects: 'ok' },
  offline: { count: 0, some: [] },
  online: 2,
  gpuFaults: [],
  gateFaults: [],
  fullNodes: [],
  unplaced: { tasks: 0, oldest_s: null, models: [] },
  waitingRuns: [],
  failing: [],
  short: new Map(),
  reviews: 0,
  work: [],
}

const waiting = (kind: OpenWork['kind'], seconds: number): OpenWork => ({
  kind,
  waiting: 2,
  running: 0,
  oldest_waiting_s: seconds,
})

describe('attentionOf', () => {
  it('returns nothing while all is well, even with recent starts and deliveries waiting', () => {
    const work = [waiting('workflow_start', 5), waiting('webhook_delivery', 60), waiting('task', 1_000)]

    assert.deepEqual(attentionOf({ ...WELL, work }), [])
  })

  const CASES: [string, Partial<AttentionFacts>, string, string, RegExp][] = [
    [
      'a full PostgreSQL disk',
      { storage: { database: 'full', objects: 'ok' } },
      'storage_full',
      'critical',
      /PostgreSQL disk is full.*Free up disk space/,
    ],
    [
      'a full object store',
      { storage: { database: 'ok', objects: 'full', freeMb: 2 } },
      'storage_full',
      'critical',
      /object store is full \(2 MB free\).*Delete datasets/,
    ],
    [
      'a node rejected by the gate',
      { gateFaults: [{ id: 'n1', name: 'box', reason: 'it has more than 600 open polls' }] },
      'gate_fault',
      'warning',
      /1 node not receiving all durable work: box\. box: it has more than 600 open polls/,
    ],
    [
      'a gate that rejects every node',
      { online: 1, gateFaults: [{ id: 'n1', name: '', reason: 'no answer' }] },
      'gate_fault',
      'critical',
      /n1: no answer/,
    ],
    [
      'PostgreSQL',
      { database: { status: 'unreachable' } },
      'system',
      'critical',
      /PostgreSQL is not responding/,
    ],
    [
      "a node that can't use its GPUs",
      { gpuFaults: [{ node_id: 'n', name: 'big', reason: 'cuInit fails with 304' }] },
      'gpus_unusable',
      'critical',
      /^Node big cannot use its GPUs: cuInit fails with 304/,
    ],
    [
      'a node with a full disk',
      { fullNodes: [{ node_id: 'n', name: 'big', free_mb: 12 }] },
      'node_disk_full',
      'warning',
      /^1 node with a full disk: big \(12 MB free\)\. They start no new runs\. Free up disk space/,
    ],
    [
      'full disks on all nodes',
      { online: 1, fullNodes: [{ node_id: 'n', name: '', free_mb: 0 }] },
      'node_disk_full',
      'critical',
      /^1 node with a full disk: n \(0 MB free\)/,
    ],
    [
      'runs that are waiting for a GPU',
      { waitingRuns: [{ reason: 'no node with a GPU', jobs: 3, job_id: 'j' }] },
      'runs_wait',
      'warning',
      /^3 runs waiting: no node with a GPU/,
    ],
    [
      'starts that Temporal rejects',
      { work: [waiting('workflow_start', 31)] },
      'starts_wait',
      'critical',
      /2 workflows not started for 31 s/,
    ],
    [
      'overdue deliveries',
      { work: [waiting('webhook_delivery', 121)] },
      'deliveries_wait',
      'warning',
      /2 webhook deliveries overdue for 121 s/,
    ],
    [
      'a model that fails to load',
      { failing: [{ model_key: 'm', node: 'rack', error: 'out of memory' }] },
      'model_fails',
      'warning',
      /m failed to load on rack: out of memory/,
    ],
    [
      'too few copies',
      { short: new Map([['m', 'no node has room']]) },
      'too_few_warm',
      'warning',
      /no node has room/,
    ],
    [
      'one offline node out of several',
      { offline: { count: 1, some: [{ id: 'n', name: '' }] } },
      'nodes_offline',
      'warning',
      /1 node offline: n\./,
    ],
  ]
  for (const [title, facts, kind, severity, message] of CASES) {
    it(`reports ${title}`, () => {
      const [found, ...others] = attentionOf({ ...WELL, ...facts })

      assert.deepEqual([found?.kind, found?.severity, others], [kind, severity, []])
      assert.match(found?.message ?? '', message)
    })
  }
})

describe('changesBetween', () => {
  it('lists the fields whose JSON differs, and every non-null field of a new record', () => {
    const at = new Date(0)

    assert.deepEqual(
      changesBetween({ a: 1, b: [1], c: at, d: 1 }, { a: 1, b: [2], c: new Date(0), d: undefined }),
      { b: { from: [1], to: [2] } },
    )
    assert.deepEqual(changesBetween(undefined, { a: 1, b: null }), { a: { from: null, to: 1 } })
  })
})
