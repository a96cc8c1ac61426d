import assert from 'node:assert/strict'
import * as starts from '../../workflows/contract/starts.ts'

interface Start {
  options: { search?: Record<string, string>; fairnessKey?: string; priority?: number }
}

describe('workflow start intents', () => {
  it("use the account as the fairness key, so that one account's flood does not delay others", () => {
    const job = {
      jobId: 'j',
      accountId: 'acc',
      modelConfigId: 'm',
      jobName: 'n',
      jobType: 'fine_tuning',
      operatingMode: 'eco',
      priority: 5,
    }
    const given = {
      ...job,
      id: 'v',
      account_id: 'acc',
      model_key: 'k',
      datasetId: 'd',
      uploadId: 'u',
      taskId: 't',
      modelKey: 'k',
      nodeId: 'node',
      namespaceId: 's',
      build: 1,
      cohortId: 'c',
      name: 'x',
      stages: 1,
      nodes: 1,
      runId: 'r',
      endpointId: 'e',
      version: 1,
      deliveryId: 'w',
    }
    const made = Object.entries(starts).flatMap(([name, make]) =>
      typeof make === 'function' ? [[name, (make as (of: typeof given) => Start)(given)] as const] : [],
    )
    assert.ok(made.length > 10)
    for (const [name, { options }] of made)
      if (options.search?.['HearthAccount'] !== undefined) assert.equal(options.fairnessKey, 'acc', name)
    for (const name of ['trainingRunStart', 'mergeStart'])
      assert.equal(made.find(([each]) => each === name)?.[1].options.priority, 5, name)
  })
})
