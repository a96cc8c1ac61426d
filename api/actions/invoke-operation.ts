import * as invocationRepository from '../../db/repositories/actions/invocations.ts'
import { ApiError, invalidFor, type Issue } from '../../domain/errors.ts'
import { newId } from '../../domain/ids.ts'
import { callOperation } from '../http/call-operation.ts'
import { type Check, jsonCheck, LARGE_BYTES } from '../http/validate.ts'
import type { Services } from '../services.ts'
import type { InvocationKey } from './invocation-key.ts'
import type { InvokeRequest } from './invoke-request.ts'
import { OPERATION_ACTIONS, type OperationAction } from './operation-actions.ts'

const checks = new Map<OperationAction, Check>(
  OPERATION_ACTIONS.map((action) => [action, jsonCheck('body', action.inputSchema)]),
)

/**
 * Calls an operation and stores its invocation in the transaction that creates the job; returns the invocation's id.
 */
export async function invokeOperation(
  services: Services,
  operation: OperationAction,
  { slug, request, body, rawBody, surface }: InvokeRequest,
  key: InvocationKey | undefined,
): Promise<string> {
  const id = newId()
  const created_at = services.now()
  await underInput(async () => {
    // The check fills in defaults, so pass a copy; `structuredClone` takes twice as long as a round trip through JSON.
    checks.get(operation)?.(JSON.parse(JSON.stringify(body.input)), rawBody.length > LARGE_BYTES)
    await callOperation(
      operation.operation,
      {
        request,
        body: body.input,
        surface,
        ...(key && { before: (trx) => key.take(trx, id) }),
        after: async (trx, result) => {
          const { job_id } = result as { job_id: string }
          const account_id = request.caller.accountId
          await invocationRepository.insertJobInvocation(trx, {
            id,
            account_id,
            slug,
            kind: 'operation',
            job_id,
            created_at,
          })
        },
      },
      services,
    )
  })
  return id
}

/** Reports validation errors of an operation's body under `input`, where the client sent it. */
async function underInput(work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (err) {
    const issues = err instanceof ApiError ? (err.details['issues'] as Issue[] | undefined) : undefined
    if (!issues) throw err
    throw invalidFor(
      issues.map(({ loc: [where, ...rest], ...issue }) => ({
        ...issue,
        loc: [where ?? 'body', 'input', ...rest],
      })),
    )
  }
}
