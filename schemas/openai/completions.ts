import Type, { type Static } from 'typebox'
import { RequestedTier } from '../api-key.ts'
import { Nullable } from '../common.ts'

/**
 * A request to OpenAI's legacy Completions API. Sampling fields not listed here (`stop`, `seed`, penalties) reach the
 * model server unchanged.
 */
export const CreateCompletion = Type.Object(
  {
    model: Type.String({ minLength: 1, maxLength: 200, description: 'Id or name of an endpoint' }),
    prompt: Type.Unsafe<string | string[]>({
      type: ['string', 'array'],
      minItems: 1,
      maxItems: 1,
      items: { type: 'string' },
      description: 'A string, or a list with one string; sent to the model as a user message',
    }),
    max_tokens: Type.Optional(Nullable(Type.Integer({ minimum: 1, default: 16 }))),
    temperature: Type.Optional(Nullable(Type.Number())),
    stream: Type.Optional(Nullable(Type.Boolean())),
    service_tier: Type.Optional(RequestedTier),
    echo: Type.Optional(
      Nullable(Type.Boolean({ description: 'Whether the response starts with the prompt' })),
    ),
    n: Type.Optional(Nullable(Type.Integer({ minimum: 1, maximum: 1 }))),
    best_of: Type.Optional(Nullable(Type.Integer({ minimum: 1, maximum: 1 }))),
    logprobs: Type.Optional(Type.Null()),
    suffix: Type.Optional(Type.Null()),
  },
  { $id: 'CreateCompletion' },
)
export type CreateCompletion = Static<typeof CreateCompletion>

export const Completion = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal('text_completion'),
    created: Type.Integer({ description: 'Seconds since 1970' }),
    model: Type.String(),
    choices: Type.Array(
      Type.Object({
        text: Type.String(),
        index: Type.Integer(),
        logprobs: Type.Null(),
        finish_reason: Nullable(Type.String()),
      }),
    ),
    usage: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  },
  { $id: 'Completion' },
)
