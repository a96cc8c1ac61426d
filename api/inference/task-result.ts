import type { TaskOutputFile, TaskRow } from '../../db/tables/inference.ts'
import { at } from '../../domain/at.ts'
import { withUrls } from '../../domain/cohorts/stages/files.ts'
import type { ObjectStore } from '../../platform/object-store/store.ts'
import { ofText } from '../http/bodies/json-text.ts'

/** Output URLs are valid for a day. */
const URL_TTL_S = 24 * 3_600

/** Larger results are sent as their stored JSON text, unparsed. */
const MAX_PARSED_BYTES = 64 * 1024

interface SignedOutput extends Omit<TaskOutputFile, 'object_key' | 'address'> {
  url: string
  expires_at: string
}

/** Returns a task's result; each read signs fresh URLs for its files. */
export async function presentResult(
  objects: Pick<ObjectStore, 'signGet'>,
  { result, outputs }: Pick<TaskRow, 'result' | 'outputs'>,
): Promise<Record<string, unknown> | null> {
  if (!result) return null
  if (result.length > MAX_PARSED_BYTES && !outputs) return ofText(result) as Record<string, unknown>
  const value = JSON.parse(result.toString()) as Record<string, unknown>
  if (!outputs) return value
  if (outputs.some(({ address }) => address !== undefined)) return withSignedUrls(objects, value, outputs)
  return { ...value, output_artifacts: await signOutputs(objects, outputs) }
}

/** Returns a cohort's result with fresh URLs for the files that it names. */
async function withSignedUrls(
  objects: Pick<ObjectStore, 'signGet'>,
  value: Record<string, unknown>,
  outputs: readonly TaskOutputFile[],
): Promise<Record<string, unknown>> {
  const signed = await signOutputs(objects, outputs)
  const urls = new Map(outputs.map(({ address = '' }, i) => [address, at(signed, i)]))
  return withUrls(value, urls) as Record<string, unknown>
}

/** Returns a result's files with fresh URLs. */
export const signOutputs = (
  objects: Pick<ObjectStore, 'signGet'>,
  outputs: readonly TaskOutputFile[],
): Promise<SignedOutput[]> =>
  Promise.all(
    outputs.map(async ({ object_key, filename, content_type, size_bytes, modality }) => {
      const { url, expiresAt } = await objects.signGet(object_key, { expiresInS: URL_TTL_S, filename })
      return { filename, url, expires_at: expiresAt.toISOString(), content_type, size_bytes, modality }
    }),
  )
