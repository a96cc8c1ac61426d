import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import type { InferenceTask } from '../../schemas/inference-task.ts'
import { amount } from '../arguments.ts'
import { type AccountContext, asAccount } from '../as-account.ts'
import { usageError } from '../cli-error.ts'
import { inJson, print, remark } from '../print.ts'
import { watching } from '../screen.ts'
import { taskFailed } from './tasks.ts'

interface InferOptions {
  data: string
  async?: boolean
  timeout?: number
}

const STANDARD_INPUT = 0

/** Asks an endpoint, and waits where it takes longer than the request may. */
export function inferCommand(infer: Command): void {
  infer
    .argument('<endpoint>', 'its name or id')
    .requiredOption('-d, --data <input>', 'the input as JSON, or @file, or @- for standard input')
    .option('--async', 'print the task instead of waiting for its result')
    .option('--timeout <seconds>', 'of the request, 30 by default; what takes longer is waited for', amount)
    .action(asAccount(ask))
}

async function ask(
  { h, json }: AccountContext,
  endpoint: string,
  { data, async: isAsync, timeout }: InferOptions,
): Promise<void> {
  const input = inputOf(data)
  if (isAsync) {
    const accepted = await h.endpoints.inferAsync(endpoint, { input })
    const { task_id: taskId, status } = accepted
    return print(
      { json },
      accepted,
      `Task ${taskId} is ${status}.\nnpx hearth tasks wait ${taskId} waits for its result.`,
    )
  }
  const answer = await h.endpoints.infer(endpoint, {
    input,
    ...(timeout !== undefined && { sync_timeout_s: timeout }),
  })
  const { task_id: taskId, status, result } = answer
  if (status === 'succeeded') return print({ json }, answer, inJson(result, 2))
  remark(`hearth: task ${taskId} is ${status}; waiting for it (Ctrl-C leaves it at work)`)
  const task = await watching(`the task goes on; npx hearth tasks wait ${taskId} waits for its result.`, () =>
    h.tasks.wait(taskId),
  )
  ended(task, json)
}

function ended(task: InferenceTask, json: boolean): void {
  if (json || task.status === 'succeeded') print({ json }, task, inJson(task.result, 2))
  if (task.status === 'failed') throw taskFailed(task)
}

function inputOf(data: string): Record<string, unknown> {
  const place = data.startsWith('@') ? data.slice(1) : undefined
  let value: unknown
  try {
    value = JSON.parse(
      place === undefined ? data : readFileSync(place === '-' ? STANDARD_INPUT : place, 'utf8'),
    )
  } catch (err) {
    const { message } = err as Error
    throw usageError(
      err instanceof SyntaxError
        ? `--data is not JSON: ${message}`
        : `--data ${data} cannot be read: ${message}`,
    )
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>
  throw usageError('--data must be a JSON object, such as {"instances": [...]}')
}
