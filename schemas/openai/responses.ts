import Type, { type Static } from 'typebox'
import { RequestedTier } from '../api-key.ts'
import { Nullable } from '../common.ts'

const Loose = Type.Record(Type.String(), Type.Unknown())

/**
 * A Responses API request that a chat can answer. Items and parts are checked one by one when the chat is built
 * (`domain/responses/chat-of.ts`); fields not listed here are ignored.
 */
export const CreateResponse = Type.Object(
  {
    model: Type.String({ minLength: 1, maxLength: 200, description: 'Id or name of an endpoint' }),
    input: Type.Unsafe<string | unknown[]>({
      type: ['string', 'array'],
      items: {},
      minItems: 1,
      description: 'A string, or items: messages, function calls and their outputs',
    }),
    instructions: Type.Optional(Nullable(Type.String())),
    max_output_tokens: Type.Optional(Nullable(Type.Integer({ minimum: 1 }))),
    temperature: Type.Optional(Nullable(Type.Number({ minimum: 0, maximum: 2 }))),
    top_p: Type.Optional(Nullable(Type.Number({ minimum: 0, maximum: 1 }))),
    tools: Type.Optional(Nullable(Type.Array(Loose))),
    tool_choice: Type.Optional(
      Nullable(Type.Unsafe<string | Record<string, unknown>>({ type: ['string', 'object'] })),
    ),
    parallel_tool_calls: Type.Optional(Nullable(Type.Boolean())),
    text: Type.Optional(Nullable(Type.Object({ format: Type.Optional(Nullable(Loose)) }))),
    reasoning: Type.Optional(Nullable(Loose)),
    metadata: Type.Optional(Nullable(Type.Record(Type.String(), Type.String()))),
    user: Type.Optional(Nullable(Type.String())),
    stream: Type.Optional(Nullable(Type.Boolean())),
    service_tier: Type.Optional(RequestedTier),
    store: Type.Optional(
      Nullable(
        Type.Boolean({ description: 'Accepted but ignored: nothing is stored, and the response says so' }),
      ),
    ),
    background: Type.Optional(Nullable(Type.Boolean())),
    previous_response_id: Type.Optional(Nullable(Type.String())),
    conversation: Type.Optional(Nullable(Type.Unknown())),
    prompt: Type.Optional(Nullable(Type.Unknown())),
  },
  { $id: 'CreateResponse' },
)
export type CreateResponse = Static<typeof CreateResponse>

export const ModelResponse = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal('response'),
    created_at: Type.Integer({ description: 'Seconds since 1970' }),
    status: Type.String({ description: '`completed`, `incomplete` or `failed`; `in_progress` in events' }),
    error: Nullable(Type.Object({ code: Type.String(), message: Type.String() })),
    incomplete_details: Nullable(Type.Object({ reason: Type.String() })),
    model: Type.String(),
    output: Type.Array(Loose),
    usage: Nullable(
      Type.Object({
        input_tokens: Type.Integer(),
        output_tokens: Type.Integer(),
        total_tokens: Type.Integer(),
      }),
    ),
  },
  { $id: 'ModelResponse' },
)
