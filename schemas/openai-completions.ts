import Type, { type Static } from 'typebox'
import { RequestedTier } from './api-key.ts'
import { Nullable } from './common.ts'

/**
 * A request of OpenAI's older Completions API. Sampling fields that are not named here (`stop`, `seed`, penalties) reach
 * the model server unchanged.
 */
export const CreateCompletion = Type.Object(
  {
    model: Type.String({ minLength: 1, maxLength: 200, description: 'Id of an endpoint, or a name' }),
    prompt: Type.Unsafe<string | string[]>({
      type: ['string', 'array'],
      minItems: 1,
      maxItems: 1,
      items: { type: 'string' },
      description: 'A text, or a list with one; it is given to the model as the message of a user',
    }),
    max_tokens: Type.Optional(Nullable(Type.Integer({ minimum: 1, default: 16 }))),
    temperature: Type.Optional(Nullable(Type.Number())),
    stream: Type.Optional(Nullable(Type.Boolean())),
    service_tier: Type.Optional(RequestedTier),
    echo: Type.Optional(Nullable(Type.Boolean({ description: 'Whether the answer begins with the prompt' }))),
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
