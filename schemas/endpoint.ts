import Type, { type Static } from 'typebox'
import { Nullable, RequiredWith, Timestamp, Uuid, Vocabulary } from './common.ts'
import { Filled, Formed } from './forms.ts'
import { Serving } from './nodes/serving.ts'

export const EndpointVisibility = Vocabulary('private', 'account', 'public')
export type EndpointVisibility = Static<typeof EndpointVisibility>
export const EndpointStatus = Vocabulary('active', 'paused', 'inactive', 'deprecated')
export type EndpointStatus = Static<typeof EndpointStatus>
export const ReviewStatus = Vocabulary('active', 'pending_review', 'approved', 'rejected')
export type ReviewStatus = Static<typeof ReviewStatus>
export const EndpointSource = Vocabulary('catalog', 'trained')
export const ServeAs = Vocabulary('adapter', 'merged')
export const Readiness = Vocabulary('warm', 'cached', 'cold')

const JsonSchema = Type.Record(Type.String(), Type.Unknown())
const Example = Type.Record(Type.String(), Type.Unknown())
const NamedExample = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 100 }),
    description: Type.String({ maxLength: 1_000 }),
    input: Example,
    output: Example,
  },
  { additionalProperties: false },
)

/** The warmth of an endpoint's model across all nodes. */
export const ModelReadiness = Type.Object({
  readiness: Readiness,
  warm_nodes: Type.Integer(),
  cached_nodes: Type.Integer(),
  estimated_latency_ms: Type.Integer(),
})
export type ModelReadiness = Static<typeof ModelReadiness>

/**
 * The hub repository that an endpoint was imported from, and the account that claims that origin; all null for other
 * endpoints.
 */
export const HubOrigin = Type.Object({
  repo_id: Nullable(Type.String({ description: 'The imported hub repository' })),
  revision: Nullable(Type.String({ description: 'The commit that is served' })),
  imported_by: Nullable(Type.String({ description: 'The account that imported it' })),
})
export type HubOrigin = Static<typeof HubOrigin>

/** An engine that failed to serve an endpoint's model on a node. */
const EndpointEngineFault = Type.Object({
  runtime_profile: Type.String({ description: 'The profile of the engine that failed' }),
  error: Type.String(),
  served_by: Type.String({ description: 'The profile that serves the model instead' }),
  retry_at: Nullable({
    ...Timestamp,
    description: 'The engine is tried again at the first load after this time; null: at the next load',
  }),
})
export type EndpointEngineFault = Static<typeof EndpointEngineFault>

/** An endpoint in responses. Only its owner gets the review fields. */
export const Endpoint = Type.Object(
  {
    endpoint_id: Uuid,
    name: Type.String(),
    display_name: Type.String(),
    description: Type.String(),
    visibility: EndpointVisibility,
    status: EndpointStatus,
    review_status: ReviewStatus,
    /** The reviewer's note; only the owner gets it. */
    review_note: Type.Optional(Nullable(Type.String())),
    owned: Type.Boolean({ description: 'Whether the endpoint belongs to the calling account' }),
    source: EndpointSource,
    is_base_model: Type.Boolean(),
    task_type: Type.String(),
    base_model: Nullable(Type.String()),
    model_category: Nullable(Type.String()),
    ...HubOrigin.properties,
    version_id: Uuid,
    /** Only the owner gets it. */
    serving: Type.Optional({
      ...Nullable(Serving),
      description: 'Null while nodes serve the model with the defaults',
    }),
    serve_as: { ...ServeAs, description: 'adapter: in the server of its base; merged: with its own weights' },
    base_version_id: Nullable(
      Type.String({ description: 'The version in whose server an adapter is; null for a merged model' }),
    ),
    /** Only the owner gets it. */
    merged_because: Type.Optional(
      Nullable(Type.String({ description: 'Why a fine-tuned model cannot be served as an adapter' })),
    ),
    engine_faults: Type.Optional(
      Type.Array(EndpointEngineFault, {
        description:
          'Engines that failed to serve the model on nodes that now serve it with another one; only the owner gets them, not in lists',
      }),
    ),
    input_schema: JsonSchema,
    output_schema: JsonSchema,
    example_input: Example,
    example_output: Example,
    examples: Type.Array(NamedExample, { description: 'Further examples' }),
    abridged: Type.Optional(
      Type.Boolean({
        description:
          'In lists only: true when schemas and examples are left empty because the whole page would be too large; read the endpoint by its id',
      }),
    ),
    tags: Type.Array(Type.String()),
    total_requests: Type.Integer(),
    total_tokens_processed: Type.Integer(),
    price_per_request: Type.Number({ description: 'USD' }),
    replaced_by: Nullable(
      Type.String({ description: 'The name of the endpoint to use instead of this deprecated one' }),
    ),
    deprecated_at: Nullable(Timestamp),
    last_used_at: Nullable(Timestamp),
    created_at: Timestamp,
    updated_at: Timestamp,
    ...Type.Partial(ModelReadiness).properties,
  },
  { $id: 'Endpoint' },
)
export type Endpoint = Static<typeof Endpoint>

/** Filters, order and page of `GET /endpoints`. */
export const EndpointQuery = Type.Object({
  visibility: Type.Optional(EndpointVisibility),
  review_status: Type.Optional(ReviewStatus),
  task_type: Type.Optional(Type.String({ maxLength: 100 })),
  search: Type.Optional(Type.String({ maxLength: 200 })),
  source: Type.Optional(EndpointSource),
  owner: Type.Optional(Vocabulary('me')),
  base_model: Type.Optional(Type.String({ maxLength: 300 })),
  model_category: Type.Optional(Type.String({ maxLength: 100 })),
  active_since_days: Type.Optional(Type.Integer({ minimum: 1, maximum: 365 })),
  sort: Type.Optional({ ...Vocabulary('created_at', 'total_requests', 'name'), default: 'created_at' }),
  order: Type.Optional({ ...Vocabulary('desc', 'asc'), default: 'desc' }),
  include_facets: Type.Optional(Type.Boolean({ default: false })),
  include_readiness: Type.Optional(Type.Boolean({ default: false })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
  offset: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000_000, default: 0 })),
})
export type EndpointQuery = Static<typeof EndpointQuery>

export const EndpointFacets = Type.Object({
  counts: Type.Object({
    catalog: Type.Integer(),
    trained: Type.Integer(),
    active_30d: Type.Integer(),
    total: Type.Integer(),
  }),
  base_models: Type.Array(
    Type.Object({
      model_name: Type.String(),
      model_category: Nullable(Type.String()),
      n: Type.Integer(),
    }),
  ),
})
export type EndpointFacets = Static<typeof EndpointFacets>

export const EndpointList = Type.Object({
  endpoints: Type.Array(Endpoint),
  total: Type.Integer(),
  limit: Type.Integer(),
  offset: Type.Integer(),
  facets: Type.Optional(EndpointFacets),
})

/** A name is lower-case and URL-safe, and can't be mistaken for an id. */
export const ENDPOINT_NAME = {
  pattern: '^[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?$',
  words:
    'must consist of lower-case letters, digits, ".", "_" and "-", and start and end with a letter or digit',
  maxLength: 100,
} as const
export const EndpointName = Formed(ENDPOINT_NAME.pattern, ENDPOINT_NAME.words, {
  minLength: 1,
  maxLength: ENDPOINT_NAME.maxLength,
  description:
    'Lower-case letters, digits, ".", "_" and "-"; unique across accounts. The account can reuse the name of an endpoint that it deleted',
})

const described = {
  display_name: Type.Optional(Type.String({ maxLength: 200 })),
  description: Type.Optional(Type.String({ maxLength: 10_000 })),
}

/** The listing fields, shared by registration and every later change. */
const listed = {
  ...described,
  input_schema: Type.Optional(JsonSchema),
  output_schema: Type.Optional(JsonSchema),
  example_input: Type.Optional(Example),
  example_output: Type.Optional(Example),
  examples: Type.Optional(Type.Array(NamedExample, { maxItems: 8 })),
  tags: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 100 }), { maxItems: 50, uniqueItems: true }),
  ),
  price_per_request: Type.Optional(Type.Number({ minimum: 0, maximum: 10_000, description: 'USD' })),
}

const TaskType = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 100,
    description: 'A task type that the model supports; defaults to the one it was trained for',
  }),
)

/** The listing fields that a public endpoint must fill in. */
export const PUBLIC_FIELDS = [
  'description',
  'display_name',
  'input_schema',
  'output_schema',
  'example_input',
  'example_output',
  'tags',
  'task_type',
  'price_per_request',
] as const

const FILLED = {
  description: Filled,
  display_name: Filled,
  input_schema: { minProperties: 1 },
  output_schema: { minProperties: 1 },
  example_input: { minProperties: 1 },
  example_output: { minProperties: 1 },
  tags: { minItems: 1 },
  task_type: Filled,
}

/** The body of a registration; a public endpoint must also fill in the public fields. */
export const RegisterForInference = Type.Object(
  {
    name: EndpointName,
    ...listed,
    visibility: Type.Optional({ ...Vocabulary('account', 'public'), default: 'account' }),
    task_type: TaskType,
    serving: Type.Optional(Serving),
    serve_as: Type.Optional({
      ...ServeAs,
      description:
        'adapter: many fine-tuned models share the server of their base; merged: the model has its own. Default: adapter, if the base and the engines allow it',
    }),
  },
  { additionalProperties: false, ...RequiredWith('visibility', 'public', PUBLIC_FIELDS, FILLED) },
)
export type RegisterForInference = Static<typeof RegisterForInference>

export const UpdateEndpoint = Type.Object(
  {
    visibility: Type.Optional(EndpointVisibility),
    status: Type.Optional(EndpointStatus),
    replaced_by: Type.Optional(
      Nullable(
        Type.String({
          minLength: 1,
          maxLength: 100,
          description: 'With status `deprecated`: the name or id of the endpoint to use instead',
        }),
      ),
    ),
    task_type: TaskType,
    serving: Type.Optional({
      ...Nullable(Serving),
      description: 'Replaces all settings, for every endpoint of this version; null: the defaults',
    }),
    ...listed,
  },
  { additionalProperties: false, minProperties: 1 },
)
export type UpdateEndpoint = Static<typeof UpdateEndpoint>

export const InferenceModel = Type.Object({
  model_name: Type.String(),
  task_type: Type.String(),
  model_category: Nullable(Type.String()),
  ...HubOrigin.properties,
  ...Type.Partial(ModelReadiness).properties,
})

export const InferenceModelQuery = Type.Object({
  category: Type.Optional(Type.String({ maxLength: 100 })),
  active_only: Type.Optional(Type.Boolean({ default: true })),
  include_readiness: Type.Optional(Type.Boolean({ default: false })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 1000 })),
  cursor: Type.Optional(Type.String({ minLength: 1 })),
})
