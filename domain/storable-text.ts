const NUL = '\0'

/** Returns whether PostgreSQL can store a string: it must have no NUL and no unpaired surrogate. */
export const isStorable = (text: string): boolean => !text.includes(NUL) && text.isWellFormed()

/** Replaces characters that PostgreSQL cannot store. */
export const storable = (text: string): string => text.toWellFormed().replaceAll(NUL, '\uFFFD')

/** Serializes a value to JSON that PostgreSQL can store. */
export const storableJson = (value: object): string =>
  JSON.stringify(value, (_key, part: unknown) => (typeof part === 'string' ? storable(part) : part))
