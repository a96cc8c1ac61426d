import Type, { type Static, type TSchema } from 'typebox'

export const Uuid = Type.String({ format: 'uuid' })
export const Timestamp = Type.String({ format: 'date-time' })

/** Wraps a schema as `T | null`, which is how the API expresses an absent value. */
export const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

/** Declares a closed vocabulary: one tuple yields the JSON Schema enum, the type and the list of values. */
export const Vocabulary = <const T extends readonly string[]>(...values: T) =>
  Type.Unsafe<T[number]>({ type: 'string', enum: values })

/** Returns the values of a closed vocabulary. */
export const valuesOf = (vocabulary: TSchema): string[] => (vocabulary as { enum?: string[] }).enum ?? []

/**
 * Options of an object that needs at least one of these members. A request without any of them gets this error together
 * with all its other errors.
 */
export const EitherOf = (...names: string[]) => ({ anyOf: names.map((name) => ({ required: [name] })) })

/** Options of an object that needs exactly one of these members. */
export const ExactlyOneOf = (...names: string[]) => ({
  oneOf: names.map((name) => ({ required: [name] })),
})

/** Options of an object in which one value of a member makes other members required and constrains them further. */
export const RequiredWith = (
  name: string,
  value: string,
  required: readonly string[],
  properties: Readonly<Record<string, object>> = {},
) => ({
  if: { required: [name], properties: { [name]: { const: value } } },
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema; no code awaits a schema
  then: { required, properties },
})

export const PageQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
  cursor: Type.Optional(Type.String({ minLength: 1 })),
})
export type PageQuery = Static<typeof PageQuery>

/** Query of a list that can also be sorted oldest first. */
export const OrderedPageQuery = Type.Object({
  ...PageQuery.properties,
  order: Type.Optional({ ...Vocabulary('asc', 'desc'), default: 'desc' }),
})
export type OrderedPageQuery = Static<typeof OrderedPageQuery>

/** Query of a list that is sorted by creation or by name. */
export const SortedPageQuery = Type.Object({
  ...OrderedPageQuery.properties,
  sort: Type.Optional({ ...Vocabulary('created_at', 'name'), default: 'created_at' }),
})
export type SortedPageQuery = Static<typeof SortedPageQuery>

/** The body of a list response: `{<name>: [...], next_cursor}`. The cursor is null on the last page. */
export const pageOf = <const N extends string, T extends TSchema>(name: N, item: T) =>
  Type.Unsafe<Record<N, Static<T>[]> & { next_cursor: string | null }>(
    Type.Object({ [name]: Type.Array(item), next_cursor: Nullable(Type.String()) }),
  )

/** The body of every error on the Builder and orchestrator routes. */
export const ErrorBody = Type.Object(
  {
    error: Type.Object({
      code: Type.String(),
      message: Type.String(),
      details: Type.Record(Type.String(), Type.Unknown()),
      request_id: Type.String(),
    }),
  },
  { $id: 'Error' },
)

/** The body of a 422: the usual error, plus every validation error with its location. */
export const ValidationErrorBody = Type.Object(
  {
    detail: Type.Array(
      Type.Object({
        loc: Type.Array(Type.Union([Type.String(), Type.Integer()])),
        msg: Type.String(),
        type: Type.String(),
      }),
    ),
    error: ErrorBody.properties.error,
  },
  { $id: 'HTTPValidationError' },
)

/** The body of every error on the OpenAI-compatible routes. */
export const OpenAiErrorBody = Type.Object(
  {
    error: Type.Object({
      message: Type.String(),
      type: Type.String(),
      code: Type.String(),
      param: Nullable(Type.String()),
    }),
  },
  { $id: 'OpenAIError' },
)
