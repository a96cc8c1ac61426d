import type { Modality } from '../../../schemas/nodes/lease.ts'

/**
 * A file of a stage's result. Values contain its address in place of the file; a URL is signed each time a value is
 * read.
 */
export interface StageFile {
  address: string
  filename: string
  object_key: string
  content_type: string
  size_bytes: number
  modality: Modality
}

const ADDRESS = /hearth-file:[0-9a-f-]{36}\/\d{1,3}/g

/** Returns the address of a stage's file, by its index in the result. */
export const fileAddress = (stageId: string, number: number): string => `hearth-file:${stageId}/${number}`

/** Returns whether a string consists of exactly one file address. */
export const isFileAddress = (text: string): boolean => text.match(ADDRESS)?.[0] === text

/** Returns a stage's result with its files, in the format of a task's result. */
export const withFiles = (
  result: Record<string, unknown>,
  files: readonly StageFile[],
): Record<string, unknown> => ({
  ...result,
  output_artifacts: files.map(({ address, filename, content_type, size_bytes, modality }) => ({
    filename,
    url: address,
    content_type,
    size_bytes,
    modality,
  })),
})

/** Returns the files whose address appears anywhere in a value, which is given as JSON. */
export function filesNamedIn<F extends Pick<StageFile, 'address'>>(
  json: string | undefined,
  files: readonly F[],
): F[] {
  if (files.length === 0) return []
  const named = new Set(json?.match(ADDRESS))
  return files.filter(({ address }) => named.has(address))
}

/** A file's URL and when it expires. */
export interface FileUrl {
  url: string
  expires_at: string
}

/**
 * Returns a value with file addresses replaced by URLs; an object whose `url` is a file address also gets its expiry.
 */
export function withUrls(value: unknown, urls: ReadonlyMap<string, FileUrl>): unknown {
  if (typeof value === 'string') return value.replace(ADDRESS, (address) => urls.get(address)?.url ?? address)
  if (Array.isArray(value)) return value.map((item) => withUrls(item, urls))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).flatMap(([name, inner]): [string, unknown][] => {
    const signed = name === 'url' && typeof inner === 'string' ? urls.get(inner) : undefined
    const shown: [string, unknown] = [name, withUrls(inner, urls)]
    return signed ? [shown, ['expires_at', signed.expires_at]] : [shown]
  })
  return Object.fromEntries(entries)
}
