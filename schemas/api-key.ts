import Type, { type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, Vocabulary } from './common.ts'
import { Formed, Name } from './forms.ts'

export const KeyRole = Vocabulary('viewer', 'operator', 'admin')

const ToolEntry = Formed(
  '^(?:[a-z0-9._*-]+|kind:(?:llm|specialist|tool|trained_model|generative|model|operation)|stability:(?:experimental|beta|stable))$',
  'must be a tool name, a pattern such as sales-*, kind:<kind> or stability:<level>',
  { maxLength: 100 },
)
const KeyTools = Type.Array(ToolEntry, {
  minItems: 1,
  maxItems: 100,
  uniqueItems: true,
  description:
    'Limits the key to these tools: names, patterns such as `sales-*`, `kind:<kind>` and `stability:<level>`',
})

export const ServiceTier = Vocabulary('flex', 'default', 'priority')
export type ServiceTier = Static<typeof ServiceTier>

/** The `service_tier` member of OpenAI requests. The gateway passes it to the model server unchanged. */
export const RequestedTier = Type.Unknown({
  description:
    "The request's share while its model is busy: `priority` gets four turns for each turn of the account's `default` requests, and `flex` gets a quarter of one; any other value counts as `default`",
})

/** The limits of a key, in addition to its role. Each applies to its requests to models, on every API surface. */
export const KeyLimits = Type.Object(
  {
    requests_per_minute: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000_000 })),
    tokens_per_minute: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 10_000_000_000,
        description: 'Tokens read and written; a response counts once it has ended',
      }),
    ),
    budget_credits_per_month: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: 1_000_000_000,
        description:
          'Credits for work started in a UTC month. A request counts from its admission, and stops counting if it fails. Requests beyond the budget get 429. Several gateways together may exceed it by what they admit within the same half second.',
      }),
    ),
    models: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
        minItems: 1,
        maxItems: 100,
        uniqueItems: true,
        description: 'The ids or names of the endpoints that the key may call',
      }),
    ),
    service_tier: Type.Optional({
      ...ServiceTier,
      description:
        'The highest service tier that its requests may use; `priority` by default. Use `flex` for jobs that can wait',
    }),
  },
  { $id: 'KeyLimits', additionalProperties: false },
)
export type KeyLimits = Static<typeof KeyLimits>

/** An API key without its secret text, which only the creation response contains. */
export const ApiKey = Type.Object({
  key_id: Uuid,
  account_id: Uuid,
  name: Type.String(),
  role: KeyRole,
  /** The last four characters. */
  hint: Type.String(),
  tools: Nullable(
    Type.Array(Type.String(), { description: 'The tools that the key is limited to; null if unlimited' }),
  ),
  limits: Nullable(KeyLimits),
  created_at: Timestamp,
  expires_at: Nullable(Timestamp),
  last_used_at: Nullable({ ...Timestamp, description: 'Rounded to the minute' }),
  revoked_at: Nullable(Timestamp),
})
export type ApiKey = Static<typeof ApiKey>

/** The response to creating a key; no other response contains the key's text. */
export const CreatedApiKey = Type.Object({ ...ApiKey.properties, api_key: Type.String() })
export type CreatedApiKey = Static<typeof CreatedApiKey>

const changeable = {
  limits: Type.Optional(Nullable(KeyLimits)),
  expires_at: Type.Optional(Nullable({ ...Timestamp, description: 'When the key expires; null for never' })),
}

export const CreateApiKey = Type.Object(
  {
    name: Name,
    role: Type.Optional(KeyRole),
    tools: Type.Optional(Nullable(KeyTools)),
    ...changeable,
  },
  { additionalProperties: false },
)
export type CreateApiKey = Static<typeof CreateApiKey>

/** Updates a key; `limits` replaces all of its limits. */
export const UpdateApiKey = Type.Object(
  { name: Type.Optional(Name), ...changeable },
  { additionalProperties: false, minProperties: 1 },
)
export type UpdateApiKey = Static<typeof UpdateApiKey>

export const KeyParams = Type.Object({ key_id: Uuid })
