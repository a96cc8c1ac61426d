// This file imports nothing: the command line loads it at each start, and loading `uuid` for `newId` takes 70 ms.

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const LOWER_CASE = new RegExp(UUID.source)
const V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** Returns whether a text is a UUID of any version, in capitals or not. */
export const isUuid = (text: string): boolean => UUID.test(text)

/** Returns whether a text is a UUID as PostgreSQL and `newId` write it: without capitals. */
export const isCanonicalUuid = (text: string): boolean => LOWER_CASE.test(text)

/** Returns whether a text is an id as `newId` makes it. */
export const isUuidV7 = (text: string): boolean => V7.test(text)
