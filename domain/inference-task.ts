import type { TaskStatus } from '../schemas/inference-task.ts'

/** Any step of a task may be lost with its node (back to `queued`) or end early; else steps go forward. */
const NEXT: Readonly<Record<TaskStatus, readonly TaskStatus[]>> = {
  queued: ['queued', 'assigned', 'claimed', 'failed'],
  assigned: ['queued', 'assigned', 'claimed', 'failed'],
  claimed: [
    'queued',
    'claimed',
    'preparing',
    'downloading_model',
    'loading_model',
    'running',
    'succeeded',
    'failed',
  ],
  preparing: ['queued', 'claimed', 'downloading_model', 'loading_model', 'running', 'succeeded', 'failed'],
  downloading_model: ['queued', 'claimed', 'loading_model', 'running', 'succeeded', 'failed'],
  loading_model: ['queued', 'claimed', 'downloading_model', 'running', 'succeeded', 'failed'],
  running: ['queued', 'claimed', 'generating', 'uploading_output', 'succeeded', 'failed'],
  generating: ['queued', 'claimed', 'uploading_output', 'succeeded', 'failed'],
  uploading_output: ['queued', 'claimed', 'succeeded', 'failed'],
  succeeded: [],
  failed: [],
}

export const TERMINAL_TASK_STATUSES = ['succeeded', 'failed'] as const
export type TerminalTaskStatus = (typeof TERMINAL_TASK_STATUSES)[number]

export const isTerminalTask = (status: TaskStatus): status is TerminalTaskStatus => NEXT[status].length === 0

export const canMoveTask = (from: TaskStatus, to: TaskStatus): boolean => NEXT[from].includes(to)

/** Statuses from which a task may come to `to`: the guard of its update. */
export const taskStatusesBefore = (to: TaskStatus): TaskStatus[] =>
  (Object.keys(NEXT) as TaskStatus[]).filter((from) => canMoveTask(from, to))

/** The task status that goes with what a node says it is doing (`warming_up` is a part of loading). */
export function taskStatusOf(step: string): TaskStatus | undefined {
  if (step === 'warming_up') return 'loading_model'
  return WORKING.find((status) => status === step)
}
const WORKING = [
  'preparing',
  'downloading_model',
  'loading_model',
  'running',
  'generating',
  'uploading_output',
] as const

/** A task waits at most this long in the queue. */
export const QUEUE_LIMIT_MS = 24 * 60 * 60 * 1000

/** Claims after which a task that none of them finished has failed. */
export const MAX_TASK_ATTEMPTS = 5
