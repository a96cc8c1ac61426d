import assert from 'node:assert/strict'
import type { TSchema } from 'typebox'
import { STATES, type StateKind } from '../../console/src/states.ts'
import { CohortState, EdgeState, StageState } from '../../schemas/cohorts/vocabulary.ts'
import { valuesOf } from '../../schemas/common.ts'
import { DatasetStatus } from '../../schemas/dataset.ts'
import { EndpointStatus, Readiness, ReviewStatus } from '../../schemas/endpoint.ts'
import { ModelState, TaskStatus } from '../../schemas/inference-task.ts'
import { LifecycleStatus } from '../../schemas/model-config.ts'
import { NodeEnvironment, NodeModelState, NodeStatus } from '../../schemas/nodes/node.ts'
import { TrainingRunStatus } from '../../schemas/training-run.ts'
import { AttemptOutcome, VerificationStatus, WebhookDeliveryStatus } from '../../schemas/webhook.ts'

/** A paused run keeps its status, so the pause isn't a state in the API. */
const NAMED: Record<Exclude<StateKind, 'pause'>, TSchema> = {
  run: TrainingRunStatus,
  task: TaskStatus,
  dataset: DatasetStatus,
  endpoint: EndpointStatus,
  readiness: Readiness,
  review: ReviewStatus,
  version: LifecycleStatus,
  receiver: VerificationStatus,
  delivery: WebhookDeliveryStatus,
  attempt: AttemptOutcome,
  node: NodeStatus,
  nodeModel: NodeModelState,
  environment: NodeEnvironment.properties.state,
  cohort: CohortState,
  stage: StageState,
  edge: EdgeState,
  found: ModelState,
}

describe('states in the console', () => {
  for (const [as, vocabulary] of Object.entries(NAMED)) {
    it(`have a label for every state of: ${as}`, () => {
      const worded = Object.keys(STATES[as as StateKind])
      assert.ok(valuesOf(vocabulary).length > 0)
      assert.deepEqual(
        valuesOf(vocabulary).filter((state) => !worded.includes(state)),
        [],
      )
    })
  }

  it('explain the next step for everything that is waiting or has failed', () => {
    for (const [as, states] of Object.entries(STATES))
      for (const [state, [tone, words, then]] of Object.entries(states)) {
        assert.ok(words.length > 2, `${as} ${state}`)
        assert.equal(then !== undefined, tone === 'wait' || tone === 'bad', `${as} ${state}`)
      }
  })
})
