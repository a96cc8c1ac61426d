import Type from 'typebox'
import { ApiError } from '../../../../domain/errors.ts'
import { CohortAccepted, RunRequest, USER_ID_LENGTH } from '../../../../schemas/cohorts/cohort.ts'
import { admitRun } from '../../../cohorts/admit-run.ts'
import { ensureSpacesOf } from '../../../cohorts/ensure-spaces.ts'
import { takeRunTurn } from '../../../cohorts/run-turn.ts'
import { route } from '../../../http/route.ts'

/** A run may include its graph, whose templates are long, in addition to its input. */
const MAX_BODY_BYTES = 4 * 1024 * 1024

export const runCohort = route({
  operationId: 'runCohort',
  summary: 'Run a graph of models across the nodes, durably',
  method: 'POST',
  path: '/cohorts:run',
  auth: 'cohort',
  idempotent: true,
  admitsWork: true,
  headers: Type.Object({ 'x-user-id': Type.String(USER_ID_LENGTH) }),
  body: RunRequest,
  maxBodyBytes: MAX_BODY_BYTES,
  success: { status: 202, schema: CohortAccepted },
  errors: ['not_found', 'conflict', 'task_quota_exceeded'],

  async prepare({ caller: { accountId, isLimited }, body, rawBody, signal }, services) {
    if (isLimited)
      throw new ApiError(
        'forbidden',
        'a key with limits cannot run cohorts; use a key without limits, or call the models one by one',
      )
    if (body.plan) await ensureSpacesOf(services, body.plan)
    return takeRunTurn(services, { accountId, body, bytes: rawBody.length, signal })
  },

  async handler(
    { caller: { accountId, keyId }, headers, body, trx, afterCommit, signal },
    { now, outbox, objects, planner },
  ) {
    const accepted = await admitRun(
      { trx, objects, planner },
      { accountId, keyId, userId: headers['x-user-id'], body, now: now(), signal },
    )
    afterCommit(() => outbox.poke())
    return accepted
  },
})
