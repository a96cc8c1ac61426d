const NUL = '\0'

/** Returns whether PostgreSQL can store a string: it must have no NUL and no unpaired surrogate. */
export const isStorable = (text: string): boolean => !text.includes(NUL) && text.isWellFormed()

/** Replaces characters that PostgreSQL cannot store. */
export const storable = (text: string): string => text.toWellFormed().replaceAll(NUL, '\uFFFD')

/** An escape in JSON text; the group holds that of a character that PostgreSQL cannot store. */
const ESCAPE = /\\(?:(u0000|ud[89a-f][\da-f]{2})|.)/g

/** Serializes a value to JSON that PostgreSQL can store, including the names of members. */
export const storableJson = (value: object): string =>
  // `JSON.stringify` escapes NUL and unpaired surrogates, but not pairs.
  JSON.stringify(value).replace(ESCAPE, (escape, refused?: string) => (refused ? '\uFFFD' : escape))
