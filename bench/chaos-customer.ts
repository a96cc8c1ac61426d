import { request } from 'undici'
import type { Chat, ChatModel } from '../test/faults/chats.ts'
import type { SubmittedTask, Model } from '../test/faults/work.ts'
import type { TestPlatform } from '../test/support/servers/platform.ts'
import type { Tally } from './chaos-tally.ts'

/** A run that the platform has accepted. */
export interface Run {
  id: string
  kind: 'short' | 'medium' | 'retrain' | 'doomed'
  /** A cancel request: `sent`, and then `answered` once it has a response. */
  cancel?: 'sent' | 'answered'
  cancelAt?: number
  /** The terminal status that a read returned. */
  reported?: string
}

/** A task whose id the platform has returned. */
export type Task = SubmittedTask & { kind: 'later' | 'now' }

export interface EndedChat extends Chat {
  began: number
  ended: number
}

/** An accepted tool invocation with its expected result. */
export interface ToolCall {
  invocationId: string
  slug: string
  expected: object
}

/** A cohort that the platform has accepted. */
export interface CohortRun {
  taskId: string
  /** The terminal status that a read returned. */
  reported?: string
}

/** A resource that several identical requests must have created exactly once. */
export interface KeyedResource {
  kind: 'dataset' | 'key' | 'cohort' | 'tool'
  /** The unique name in its body; for an invocation, its id. */
  name: string
}

/** One account's resources, and the work accepted for it. */
export interface Customer {
  name: string
  /** A client of the platform for this account. */
  platform: TestPlatform
  /** A table to train on, and a table that makes a regression fail. */
  table: string
  wordsTable: string
  models: Model[]
  chatModels: ChatModel[]
  datasets: { datasetId: string; rows: number }[]
  runs: Run[]
  tasks: Task[]
  chats: EndedChat[]
  toolCalls: ToolCall[]
  cohorts: CohortRun[]
  keyed: KeyedResource[]
}

export interface Shift {
  tally: Tally
  /** No new work starts after this time. */
  until: number
  /** Work in progress is polled until this time. */
  patience: number
}

/** POSTs a body once, with an `Idempotency-Key`; returns the text of a response with a status below 300. */
export async function postOnce(
  { platform: { ready } }: Customer,
  path: string,
  { body, key }: { body: object; key: string },
): Promise<string> {
  const answer = await request(`${ready.base_url}/api/${path}`, {
    method: 'POST',
    headers: {
      'x-api-key': ready.api_key,
      'x-account-id': ready.account_id,
      'x-user-id': 'chaos',
      'content-type': 'application/json',
      'idempotency-key': key,
    },
    body: JSON.stringify(body),
  })
  const text = await answer.body.text()
  if (answer.statusCode >= 300) throw new Error(`${path} answered ${answer.statusCode}: ${text}`)
  return text
}
