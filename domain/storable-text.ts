const NUL = '\0'

/** Whether PostgreSQL can hold a text: neither a NUL nor half a surrogate pair. */
export const isStorable = (text: string): boolean => !text.includes(NUL) && text.isWellFormed()

/** A text as PostgreSQL can hold it. */
export const storable = (text: string): string => text.toWellFormed().replaceAll(NUL, '\uFFFD')

/** A value as JSON that PostgreSQL can hold. */
export const storableJson = (value: object): string =>
  JSON.stringify(value, (_key, part: unknown) => (typeof part === 'string' ? storable(part) : part))
