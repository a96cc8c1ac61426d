import type { TaskStatus } from '../schemas/inference-task.ts'

/** The statuses after the model has been loaded, and the final ones. */
const AT_WORK = ['running', 'generating', 'uploading_output', 'succeeded', 'failed'] as const

/** Any status may return to `queued` when a node is lost, or end early; all other transitions go forward. */
const NEXT: Readonly<Record<TaskStatus, readonly TaskStatus[]>> = {
  queued: ['queued', 'assigned', 'claimed', 'failed'],
  assigned: ['queued', 'assigned', 'claimed', 'failed'],
  claimed: ['queued', 'claimed', 'preparing', 'downloading_model', 'loading_model', ...AT_WORK],
  preparing: ['queued', 'claimed', 'downloading_model', 'loading_model', ...AT_WORK],
  downloading_model: ['queued', 'claimed', 'loading_model', ...AT_WORK],
  loading_model: ['queued', 'claimed', 'downloading_model', ...AT_WORK],
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

/** Returns the statuses that may precede `to`, which guard the update to it. */
export const taskStatusesBefore = (to: TaskStatus): TaskStatus[] =>
  (Object.keys(NEXT) as TaskStatus[]).filter((from) => canMoveTask(from, to))

/** Maps a step in a node's progress to a task status (`warming_up` is part of loading). */
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

/** The longest time that a task may wait in the queue. */
export const QUEUE_TIMEOUT_MS = 24 * 60 * 60 * 1000

/** A task fails after this many claims without a result. */
export const MAX_TASK_ATTEMPTS = 5

/** The error of a task that its account cancelled. */
export const CANCELLED_BY_CALLER = 'cancelled by the caller'

/** The error of a task that an operator cancelled. */
export const CANCELLED_BY_OPERATOR = 'cancelled by an operator'
