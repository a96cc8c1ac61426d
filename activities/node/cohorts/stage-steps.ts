import { isFileAddress } from '../../../domain/cohorts/stage-files.ts'
import { ControlError } from '../../../node-runtime/control/client.ts'
import type { KeptLease } from '../../../node-runtime/control/lease-keeper.ts'
import { addressesIn } from '../../../node-runtime/models/input-files.ts'
import type { StageClaim } from '../../../schemas/cohort-stage.ts'
import type { InputFiles } from '../../../schemas/lease.ts'
import type { NodeDeps } from '../deps.ts'
import { InferenceError } from '../models/ask-model.ts'

/** Tells how far a stage is. */
export const tellStep = (lease: KeptLease, status: 'waiting' | 'running'): void =>
  lease.report({ status, progress_pct: 0, metadata: {} })

/** Returns URLs of the files that these fields of an input name: those of earlier stages, and uploads. */
export async function namedFiles(
  { control }: Pick<NodeDeps, 'control'>,
  { lease_token }: Pick<StageClaim, 'lease_token'>,
  {
    input,
    fields,
    signal,
  }: { input: Record<string, unknown>; fields: readonly string[]; signal: AbortSignal },
): Promise<InputFiles['files']> {
  const named = addressesIn(input, fields)
  if (named.length === 0) return []
  const { files } = await control
    .lease<InputFiles>('files', lease_token, { files: named }, { signal })
    .catch((err: unknown) => {
      if (err instanceof ControlError && err.status === 422) throw new InferenceError(err.message, false)
      throw err
    })
  const lost = named.find(({ field, url }) => isFileAddress(url) && !files.some((one) => one.field === field))
  if (lost) throw new InferenceError(`${lost.field} names a file that this run does not have`, false)
  return files
}
