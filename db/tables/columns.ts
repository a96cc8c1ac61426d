import type { ColumnType } from 'kysely'

/** Set by the database when a row is inserted. */
export type CreatedAt = ColumnType<Date, Date | undefined, never>
/** Set by the database unless a value is given. */
export type WithDefault<T> = ColumnType<T, T | undefined, T>
/** jsonb: read as a value, written as text. */
export type Json<T> = ColumnType<T, string, string>
/** jsonb that may be absent. */
export type NullableJson<T> = ColumnType<T | null, string | null | undefined, string | null>
/** A column that may be absent. */
export type Optional<T> = ColumnType<T | null, T | null | undefined, T | null>
/** Numbered by the database whenever a row changes. */
export type ChangeSequence = ColumnType<number, undefined, never>
