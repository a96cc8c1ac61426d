import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { memoryLimitMb } from '../../domain/models/memory.ts'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import { readLines } from '../processes/output-lines.ts'
import type { ProcessDriver } from '../processes/process-driver.ts'
import { checkModelFolder } from './folder.ts'
import { commandOf } from './launch.ts'
import type { LoadDeadline } from './load-deadline.ts'
import { ModelServerError, UNUSABLE_LINE, UNUSABLE_STATUS } from './server.ts'

export type Convert = NonNullable<RuntimeProfile['convert']>

/** A line of a conversion's output, as documented in the servers' README. */
type ConversionEvent =
  | { event: 'progress'; percent: number }
  | { event: 'compared'; file: string; difference?: number; problem?: string; passed?: boolean }

/** The result of comparing a file's numbers during a conversion. */
export type Comparison = Extract<ConversionEvent, { event: 'compared' }>

export interface ConversionOrder {
  name: string
  profile: RuntimeProfile
  /** The interpreters of the conversion's environment, and of the profile's environment for the check. */
  converter: string
  python: string | undefined
  modelDir: string
  outDir: string
  ramMb: number
}

export interface ConversionWatch {
  deadline: LoadDeadline
  stopping: AbortSignal
  onProgress: (percent: number) => void
  onCompared: (comparison: Comparison) => void
}

/** The largest file that a conversion may write. */
const MAX_FILE_MB = 65_536
const LAST_LINES = 5

/** Identifies the output of a profile's conversion. */
export const recipeOf = ({ profile_id }: RuntimeProfile, { version }: Convert): string =>
  `${profile_id}/${version}`

/** Returns whether a model already has all files that the server reads. */
export async function needsNoConversion({ unless }: Convert, modelDir: string): Promise<boolean> {
  const found = await Promise.all(
    unless.map((path) =>
      access(join(modelDir, path)).then(
        () => true,
        () => false,
      ),
    ),
  )
  return found.every(Boolean)
}

/** Runs the command of a conversion and its check, confined like a model server. */
export async function runConversion(
  driver: ProcessDriver,
  order: ConversionOrder,
  watch: ConversionWatch,
): Promise<void> {
  const { convert } = order.profile
  if (!convert) throw new Error(`the runtime profile ${order.profile.profile_id} has no conversion`)
  await checkModelFolder(order.modelDir)
  await runStep(driver, order, convert.command, order.converter, watch)
  if (convert.check) await runStep(driver, order, convert.check, order.python, watch)
}

async function runStep(
  driver: ProcessDriver,
  { name, profile, modelDir, outDir, ramMb }: ConversionOrder,
  template: readonly string[],
  python: string | undefined,
  { deadline, stopping, onProgress, onCompared }: ConversionWatch,
): Promise<void> {
  const signal = AbortSignal.any([deadline.signal, stopping])
  signal.throwIfAborted()
  const process = await driver.start({
    name,
    ...commandOf({ profile, template, python, values: { model_dir: modelDir, out_dir: outDir } }),
    confinement: {
      reads: [modelDir],
      writes: [outDir],
      network: 'none',
      memoryMb: memoryLimitMb(ramMb),
      hasGpu: false,
      oomScore: 600,
      fileMb: MAX_FILE_MB,
    },
  })
  const stop = () => void process.stop({ graceMs: 0 })
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  const lastLines: string[] = []
  const take = (text: string) => {
    deadline.heard()
    const line = eventIn(text)
    if (line?.event === 'progress') onProgress(line.percent)
    else if (line) onCompared(line)
    else if (lastLines.push(text) > LAST_LINES) lastLines.shift()
  }
  try {
    await Promise.all([process.stdout, process.stderr].map((stream) => readLines(stream, take)))
    const { code } = await process.exited
    signal.throwIfAborted()
    if (code === 0) return
    const why = lastLines.findLast((line) => line.startsWith(UNUSABLE_LINE))
    if (code === UNUSABLE_STATUS && why !== undefined) throw new ModelServerError(why, { isUnusable: true })
    const reason = process.excess ?? lastLines.join('\n') ?? ''
    throw new ModelServerError(`its conversion exited with status ${code}: ${reason}`.trim())
  } finally {
    signal.removeEventListener('abort', stop)
    await process.stop({ graceMs: 0 })
  }
}

function eventIn(text: string): ConversionEvent | undefined {
  if (!text.startsWith('{"event"')) return undefined
  try {
    return JSON.parse(text) as ConversionEvent
  } catch {
    return undefined
  }
}
