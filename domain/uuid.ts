// This file imports nothing: the command line loads it at each start, and loading `uuid` for `newId` takes 70 ms.

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const LOWER_CASE = new RegExp(UUID.source)
const V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** Returns whether a string is a UUID of any version, in either case. */
export const isUuid = (text: string): boolean => UUID.test(text)

/** Returns whether a string is a UUID as PostgreSQL and `newId` write it: in lower case. */
export const isCanonicalUuid = (text: string): boolean => LOWER_CASE.test(text)

/** Returns whether a string is an id as created by `newId`. */
export const isUuidV7 = (text: string): boolean => V7.test(text)

/**
 * Returns the smallest id that `newId` could have created at this time, as a bound for ids that sort by creation time.
 */
export function firstIdAt(time: Date): string {
  const ms = Math.max(0, time.getTime()).toString(16).padStart(12, '0')
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7000-8000-000000000000`
}

/** Returns the time in milliseconds at which `newId` created an id. */
export const timeOfId = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)
