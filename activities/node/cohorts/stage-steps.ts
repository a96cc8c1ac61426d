import { isFileAddress } from '../../../domain/cohorts/stages/files.ts'
import { StageTimeoutError } from '../../../domain/cohorts/stages/timeout.ts'
import { ControlError } from '../../../node-runtime/control/client.ts'
import type { RenewedLease } from '../../../node-runtime/control/lease-keeper.ts'
import { addressesIn } from '../../../node-runtime/models/input-files.ts'
import type { StageClaim } from '../../../schemas/cohorts/stage.ts'
import type { InputFiles } from '../../../schemas/nodes/lease.ts'
import type { NodeDeps } from '../deps.ts'
import { InferenceError } from '../models/call-model.ts'

/** Reports a stage's progress, and whether it is waiting for space on its node. */
export class StageSteps {
  readonly #lease: Pick<RenewedLease, 'report'>
  #step: 'loading' | 'waiting' | 'running' = 'loading'
  /** The number of hand-overs that are waiting for space. */
  #waiting = 0

  constructor(lease: Pick<RenewedLease, 'report'>) {
    this.#lease = lease
  }

  tell(step: 'waiting' | 'running'): void {
    this.#step = step
    this.#report()
  }

  waitForRoom(isWaiting: boolean): void {
    this.#waiting += isWaiting ? 1 : -1
    this.#report()
  }

  #report(): void {
    const metadata = this.#waiting > 0 ? { waits_for: 'no_room' } : {}
    this.#lease.report({ status: this.#step, progress_pct: 0, metadata })
  }
}

/** Runs a stage's work, and aborts it with a `StageTimeoutError` after the stage's `timeout_s`. */
export async function withinTime<T>(
  { timeout_s }: Pick<StageClaim, 'timeout_s'>,
  signal: AbortSignal,
  work: (limited: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = AbortSignal.timeout(timeout_s * 1_000)
  try {
    return await work(AbortSignal.any([signal, late]))
  } catch (err) {
    if (!late.aborted || signal.aborted) throw err
    throw new StageTimeoutError(timeout_s, { cause: err })
  }
}

/** Returns the URLs of the files that the given input fields refer to: files of earlier stages, and uploads. */
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
