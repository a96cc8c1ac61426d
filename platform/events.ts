import type { Logger } from './log.ts'

export type EventLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal'

/** The types of fields, by the name used in declarations; a `?` after the name makes the field optional. */
interface FieldValues {
  string: string
  number: number
  'string[]': readonly string[]
  'number[]': readonly number[]
  /** An Error is logged with its stack and cause; any other value as it is. */
  error: unknown
  json: unknown
}
type FieldType = keyof FieldValues
type FieldTypes = Readonly<Record<string, FieldType | `${FieldType}?`>>

/** One kind of log line. */
export interface LogEvent<
  L extends EventLevel | 'any' = EventLevel | 'any',
  S extends string | undefined = string | undefined,
  F extends FieldTypes = FieldTypes,
> {
  /** `any` when the caller chooses the level. */
  readonly level: L
  /** The `msg` of the line; each name in braces is replaced with the text that the caller passes for it. */
  readonly sentence: S
  readonly fields: F
}
export type LogEvents = Readonly<Record<string, LogEvent>>

const at =
  <L extends EventLevel | 'any'>(level: L) =>
  <const S extends string | undefined, const F extends FieldTypes>(
    sentence: S,
    fields: F,
  ): LogEvent<L, S, F> => ({ level, sentence, fields })

export const debug = at('debug')
export const info = at('info')
export const warn = at('warn')
export const error = at('error')
export const fatal = at('fatal')
export const anyLevel = at('any')

type OptionalFields<F extends FieldTypes> = { [N in keyof F]: F[N] extends `${string}?` ? N : never }[keyof F]
type ValueOf<T> = T extends FieldType
  ? FieldValues[T]
  : T extends `${infer U extends FieldType}?`
    ? FieldValues[U]
    : never
type FieldsOf<F extends FieldTypes> = keyof F extends never
  ? Record<string, never>
  : { [N in Exclude<keyof F, OptionalFields<F>>]: ValueOf<F[N]> } & {
      [N in OptionalFields<F>]?: ValueOf<F[N]> | null | undefined
    }

type Placeholders<S> = S extends `${string}{${infer H}}${infer Rest}` ? H | Placeholders<Rest> : never
type TextsOf<E> =
  E extends LogEvent<infer L, infer S, FieldTypes>
    ? { [H in Placeholders<S>]: string } & (L extends 'any' ? { level: EventLevel } : unknown)
    : never

type EventArguments<E extends LogEvent> = keyof TextsOf<E> extends never
  ? keyof E['fields'] extends never
    ? []
    : [fields: FieldsOf<E['fields']>]
  : [fields: FieldsOf<E['fields']>, texts: TextsOf<E>]

/** A logger for one level, which accepts the fields before the sentence. */
type Writer<L extends EventLevel> = { readonly [K in L]: (fields: object, sentence?: string) => void }
type LevelOf<E extends LogEvent> = E['level'] extends EventLevel ? E['level'] : never

/** Writes the line of an event: its name as the field `event`, then the fields and the sentence. */
export interface Emit<E extends LogEvents> {
  <N extends keyof E & string>(
    log: Logger | Writer<LevelOf<E[N]>>,
    name: N,
    ...given: EventArguments<E[N]>
  ): void
  /** The declarations, for docs/events.md. */
  readonly events: E
}

/**
 * Declares the events that a part of the platform logs, and returns the function that emits them. Operators count
 * events by name and alert on them, so an event never changes its name, and a retired name is never reused.
 */
export function defineEvents<const E extends LogEvents>(events: E): Emit<E> {
  const emit = (
    log: unknown,
    name: keyof E & string,
    fields?: object,
    texts?: Readonly<Record<string, string>> & { level?: EventLevel },
  ): void => {
    const { level, sentence } = events[name] as LogEvent
    const writer = log as Writer<EventLevel>
    const filled = texts && sentence?.replace(/\{(\w+)\}/g, (_, hole: string) => texts[hole] ?? '')
    writer[level === 'any' ? (texts?.level ?? 'info') : level]({ event: name, ...fields }, filled ?? sentence)
  }
  return Object.assign(emit, { events }) as Emit<E>
}
