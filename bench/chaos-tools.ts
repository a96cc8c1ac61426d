import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Invocation } from '../schemas/action.ts'
import { type Customer, postOnce, type Shift } from './chaos-customer.ts'
import type { Random, Tally } from './chaos-tally.ts'

/** Returns a call to a confined tool with its expected result. */
export function toolRequest(random: Random): { slug: string; body: object; expected: object } {
  const [a, b] = [Math.floor(random() * 1e4), Math.floor(random() * 1e4)]
  const waiting = random() < 0.5 ? { sync: false } : { sync_timeout_s: 20 }
  if (random() < 0.5) {
    const expected = { result: a * b, text: String(a * b) }
    return { slug: 'calculator', body: { input: { expression: `${a} * ${b}` }, ...waiting }, expected }
  }
  const code = `setTimeout(() => console.log(${a} * ${b}), ${Math.floor(random() * 1_500)})`
  const expected = { stdout: `${a * b}\n`, stderr: '', exit_code: 0 }
  return { slug: 'run_javascript', body: { input: { code }, ...waiting }, expected }
}

/** Invokes a tool, and retries the request under its key until the platform accepts it. */
export async function callTool(customer: Customer, shift: Shift, random: Random): Promise<void> {
  const { slug, body, expected } = toolRequest(random)
  const sent = { body, key: randomUUID() }
  const send = () => postOnce(customer, `builder/v1/actions/${slug}:invoke`, sent)
  const text = await shift.tally.insist('tool', send, shift.patience)
  if (text === undefined) return
  const { invocation_id: invocationId } = JSON.parse(text) as Invocation
  customer.toolCalls.push({ invocationId, slug, expected })
}

/** Checks that an invocation completed with the expected result. */
export function checkToolCall(
  tally: Tally,
  { expected, slug }: { expected: object; slug: string },
  { invocation_id: id, status, result, error }: Invocation,
): void {
  const what = `${slug} ${id} is ${status}: ${error ?? JSON.stringify(result)}`
  if (status !== 'completed') tally.violation('tool invocations complete', what)
  else if (!isDeepStrictEqual(result, expected)) tally.violation('tools return the expected result', what)
}
