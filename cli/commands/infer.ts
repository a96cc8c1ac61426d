import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import type { InferenceTask } from '../../schemas/inference-task.ts'
import { amount } from '../arguments.ts'
import { type AccountContext, asAccount } from '../as-account.ts'
import { usageError } from '../cli-error.ts'
import { inJson, print, printStatus } from '../print.ts'
import { watching } from '../screen.ts'
import { taskFailed } from './tasks.ts'

interface InferOptions {
  data: string
  async?: boolean
  timeout?: number
}

const STANDARD_INPUT = 0

/** Sends a request to an endpoint. If it times out, waits for the task. */
export function inferCommand(infer: Command): void {
  infer
    .argument('<endpoint>', 'name or id')
    .requiredOption('-d, --data <input>', 'the input: JSON, @file, or @- for standard input')
    .option('--async', 'print the task instead of waiting for its result')
    .option('--timeout <seconds>', 'request timeout, 30 by default; then wait for the task', amount)
    .action(asAccount(inferOrPredict))
}

async function inferOrPredict(
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
      `Task ${taskId} is ${status}.\nWait for its result with \`npx hearth tasks wait ${taskId}\`.`,
    )
  }
  const answer = await h.endpoints.infer(endpoint, {
    input,
    ...(timeout !== undefined && { sync_timeout_s: timeout }),
  })
  const { task_id: taskId, status, result } = answer
  if (status === 'succeeded') return print({ json }, answer, inJson(result, 2))
  printStatus(`hearth: task ${taskId} is ${status}; waiting for it (Ctrl-C leaves it running)`)
  const task = await watching(
    `the task continues; run \`npx hearth tasks wait ${taskId}\` to wait for its result.`,
    () => h.tasks.wait(taskId),
  )
  ended(task, json)
}

function ended(task: InferenceTask, json: boolean): void {
  if (json || task.status === 'succeeded') print({ json }, task, inJson(task.result, 2))
  if (task.status === 'failed') throw taskFailed(task)
}

function inputOf(data: string): Record<string, unknown> {
  const inputFile = data.startsWith('@') ? data.slice(1) : undefined
  let value: unknown
  try {
    value = JSON.parse(
      inputFile === undefined ? data : readFileSync(inputFile === '-' ? STANDARD_INPUT : inputFile, 'utf8'),
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
