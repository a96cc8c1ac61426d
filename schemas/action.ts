import Type, { type Static } from 'typebox'
import { Nullable, pageOf, PageQuery, Timestamp, Uuid, Vocabulary } from './common.ts'
import { EndpointStatus, EndpointVisibility } from './endpoint.ts'
import { SYNC_TIMEOUT_S } from './inference-task.ts'
import { ToolKind } from './tool.ts'

const JsonObject = Type.Record(Type.String(), Type.Unknown())

/** An action that the account may invoke: an endpoint, or an operation of the platform. */
export const Action = Type.Object(
  {
    slug: Type.String({ description: 'The name of the endpoint, or of the operation' }),
    kind: ToolKind,
    display_name: Type.String(),
    description: Type.String(),
    visibility: EndpointVisibility,
    status: EndpointStatus,
    owned: Type.Boolean({ description: 'Whether its endpoint belongs to the calling account' }),
    endpoint_id: Nullable(Uuid),
    task_type: Nullable(Type.String()),
    tags: Type.Array(Type.String()),
    price_per_request: Nullable(
      Type.Number({ description: 'USD; null for an operation, which is billed as a job' }),
    ),
    invoke_url: Type.String({ description: 'The path to POST an input to' }),
  },
  { $id: 'Action' },
)
export type Action = Static<typeof Action>

export const ActionDetail = Type.Object(
  {
    ...Action.properties,
    input_schema: JsonObject,
    output_schema: JsonObject,
    example_input: Nullable(JsonObject),
    example_output: Nullable(JsonObject),
  },
  { $id: 'ActionDetail' },
)
export type ActionDetail = Static<typeof ActionDetail>

export const ActionQuery = Type.Object({
  ...PageQuery.properties,
  visibility: Type.Optional(EndpointVisibility),
  kind: Type.Optional(ToolKind),
})
export type ActionQuery = Static<typeof ActionQuery>

export const ActionList = pageOf('actions', Action)

export const ActionParams = Type.Object({ slug: Type.String({ minLength: 1, maxLength: 100 }) })

/** The body of an invocation. For an operation, `sync` defaults to false, because a job takes minutes. */
export const InvokeBody = Type.Object(
  {
    input: JsonObject,
    sync: Type.Optional(
      Type.Boolean({
        description:
          'Whether to wait for the result; defaults to true for a model and false for an operation',
      }),
    ),
    sync_timeout_s: Type.Optional(Type.Number(SYNC_TIMEOUT_S)),
  },
  { $id: 'InvokeBody', additionalProperties: false },
)
export type InvokeBody = Static<typeof InvokeBody>

export const InvocationStatus = Vocabulary('queued', 'running', 'completed', 'failed')
export type InvocationStatus = Static<typeof InvocationStatus>

/** An invocation of an action; either `task_id` or `job_id` identifies its work. */
export const Invocation = Type.Object(
  {
    invocation_id: Uuid,
    slug: Type.String(),
    kind: ToolKind,
    status: InvocationStatus,
    task_id: Nullable(Uuid),
    job_id: Nullable(Uuid),
    result: Nullable(
      Type.Unsafe<Record<string, unknown>>({
        ...JsonObject,
        description: 'The result of the task, or the model version that the job produced',
      }),
    ),
    error: Nullable(Type.String()),
    note: Type.Optional(Type.String({ description: 'Advice for a caller whose result is not ready' })),
    created_at: Timestamp,
    completed_at: Nullable(Timestamp),
  },
  { $id: 'Invocation' },
)
export type Invocation = Static<typeof Invocation>

export const InvocationParams = Type.Object({ invocation_id: Uuid })

/** The header of a request that must be idempotent. */
export const InvokeHeaders = Type.Object({ 'idempotency-key': Type.Optional(Uuid) })
