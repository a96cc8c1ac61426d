import { setTimeout as sleep } from 'node:timers/promises'
import type { CallToolResult } from '@modelcontextprotocol/server'
import { takesTasks } from '../../../api/mcp/tasks/declared.ts'
import type { TaskKind } from '../../../api/mcp/tasks/kinds.ts'
import type { TaskState } from '../../../api/mcp/tasks/state.ts'
import { StartedTask, type Tool } from '../../../api/mcp/tool.ts'
import { ApiError } from '../../../domain/errors.ts'
import { newId } from '../../../domain/ids.ts'

const states = new Map<string, TaskState>()

/** Tasks stored in the test's memory. */
export const FIXTURE_TASKS: TaskKind = {
  name: 'fixture',
  get(id) {
    const state = states.get(id)
    if (!state) throw new ApiError('not_found', 'there is no task with this id')
    return Promise.resolve(state)
  },
  async cancel(id, on) {
    const state = await this.get(id, on)
    if (state.status === 'working') states.set(id, { ...state, status: 'cancelled' })
  },
}

/** Builds a tool that takes a few seconds, so that clients with task support get a task. */
const slow = (
  name: string,
  work: (args: Record<string, unknown>) => { seconds: number; end: Partial<TaskState> },
): Tool => ({
  name,
  title: name,
  description: 'A fixture of the conformance tests',
  inputSchema: { type: 'object', properties: { seconds: { type: 'number' }, label: { type: 'string' } } },
  annotations: {},
  async call(args, { mcp }) {
    const { seconds, end } = work(args)
    if (!takesTasks(mcp)) {
      await sleep(seconds * 1000)
      return end.result ?? { content: [], isError: true }
    }
    const id = newId()
    const at = new Date().toISOString()
    const state: TaskState = { taskId: `fixture.${id}`, status: 'working', createdAt: at, lastUpdatedAt: at }
    states.set(id, state)
    setTimeout(() => {
      if (states.get(id)?.status === 'working') states.set(id, { ...state, status: 'completed', ...end })
    }, seconds * 1000).unref()
    return new StartedTask(state)
  },
})

const textResult = (text: string, isError = false): CallToolResult => ({
  content: [{ type: 'text', text }],
  isError,
})

export const TASK_TOOLS: readonly Tool[] = [
  {
    name: 'greet',
    title: 'greet',
    description: 'A fixture of the conformance tests',
    inputSchema: { type: 'object', properties: { name: { type: 'string' } } },
    annotations: {},
    call: ({ name }) => Promise.resolve(textResult(`Hello, ${String(name)}!`)),
  },
  slow('slow_compute', ({ seconds }) => ({
    seconds: Number(seconds ?? 0),
    end: { result: textResult('computed') },
  })),
  slow('protocol_error_job', () => ({
    seconds: 1,
    end: { status: 'failed', error: { code: -32603, message: 'the job broke' } },
  })),
  slow('failing_job', () => ({ seconds: 1, end: { result: textResult('the job has failed', true) } })),
]
