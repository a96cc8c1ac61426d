import { realpath } from 'node:fs/promises'
import { basename, dirname, join, sep } from 'node:path'
import type { ControlClient } from '../control/client.ts'
import type { CapacityWait } from '../control/retry-until-capacity.ts'
import type { EpochMeasures, JobReport } from '../control/spool.ts'
import type { ManagedProcess } from '../processes/process-driver.ts'
import { AttemptError, PAUSED } from './attempt-error.ts'
import { CheckpointUploader } from './checkpoint-uploader.ts'
import type { TrainerFile, TrainerLine, TrainerResult } from './trainer-lines.ts'
import { readTrainer, startTrainer, type TrainerStart } from './trainer-process.ts'
import type { TrainingPace } from './training-pace.ts'

/** A file of the finished model. */
export type FinishedFile = TrainerFile & { filename: string; content_type: string }

export interface Supervision extends TrainerStart {
  control: ControlClient
  token: string
  report: JobReport
  pace: TrainingPace
  /** The unit of a checkpoint's position. */
  progressUnit: string
  /** Controls how checkpoints wait for room in the object store. */
  room: CapacityWait
  /** Ends the trainer immediately, without a checkpoint. */
  signal: AbortSignal
  /** Aborts when the node stops or drains; the trainer writes a checkpoint first. */
  stopping: AbortSignal
  /** Aborts when the run is paused; the trainer writes a checkpoint first. */
  pausing: AbortSignal
}

/** Exit statuses of trainers (node-runtime/trainers/README.md). */
const EXIT = { done: 0, cannotTrain: 64, checkpointed: 75 } as const
const KILL_TIMEOUT_MS = 500
/**
 * The time to finish the current epoch and its checkpoint: short when the node stops, long when it preempts or pauses a
 * run.
 */
const STOP_TIMEOUT_MS = 2_000
const YIELD_TIMEOUT_MS = 60_000
/** A trainer without output for this long is considered stuck. */
const STALL_TIMEOUT_MS = 3_600_000
const TAIL = 12

/** Runs a trainer to completion. When the promise settles, the process tree has exited. */
export async function supervise(
  options: Supervision,
): Promise<{ files: readonly FinishedFile[]; result: TrainerResult }> {
  const { control, token, report, room, signal, stopping, pausing, job } = options
  signal.throwIfAborted()
  const trainer = await startTrainer(options)
  const stops = new TrainerStopper(trainer, { signal, stopping, pausing })
  const uploader = new CheckpointUploader({
    control,
    token,
    signal,
    room,
    onPreempt: () =>
      stops.gracefully('preempted', 'A run with a higher priority needs this slot.', YIELD_TIMEOUT_MS),
    onPause: () => stops.pause(),
    onFault: (message) => report.log(message),
  })
  const output = new TrainerOutput(options, uploader, () => stops.alive())
  try {
    await readTrainer(trainer, { onLine: (line) => output.line(line), onText: (text) => output.text(text) })
    const { code } = await trainer.exited
    signal.throwIfAborted()
    // The result replaces the checkpoints, and whatever stopped the trainer early needs its slot now.
    uploader.stopWaiting()
    await uploader.settled()
    if (trainer.excess !== undefined) {
      const message = `The run exceeded its memory limit: ${trainer.excess}.`
      throw new AttemptError('memory_exceeded', message, { retryable: false })
    }
    const outcome = output.outcome(code, stops.reason)
    for (const { path } of outcome.files) await refuseOutside(job.output_dir, path)
    return outcome
  } finally {
    stops[Symbol.dispose]()
    await trainer.stop({ graceMs: 0 })
    uploader.stopWaiting()
    await uploader.settled()
  }
}

/** A trainer reads untrusted files, so only files in its own output folder may be uploaded. */
async function refuseOutside(folder: string, path: string): Promise<void> {
  const [top, place] = await Promise.all([realpath(folder), realpath(dirname(path))])
  if (`${place}${sep}`.startsWith(`${top}${sep}`)) return
  throw new AttemptError('trainer_failed', 'The trainer reported a model file outside its folder.')
}

/** Ends a trainer for external reasons. */
class TrainerStopper implements Disposable {
  reason: { code: string; message: string } | undefined
  readonly #trainer: ManagedProcess
  readonly #cleanUps: (() => void)[] = []
  #stall: NodeJS.Timeout | undefined

  constructor(
    trainer: ManagedProcess,
    { signal, stopping, pausing }: Record<'signal' | 'stopping' | 'pausing', AbortSignal>,
  ) {
    this.#trainer = trainer
    this.#on(signal, () => void trainer.stop({ graceMs: KILL_TIMEOUT_MS }))
    this.#on(stopping, () => this.gracefully('drained', 'The node is being shut down.', STOP_TIMEOUT_MS))
    this.#on(pausing, () => this.pause())
    this.alive()
  }

  /** Stops the trainer with SIGTERM, which makes it write a checkpoint. */
  gracefully(code: string, message: string, graceMs: number): void {
    if (this.reason) return
    this.reason = { code, message }
    void this.#trainer.stop({ graceMs })
  }

  pause(): void {
    this.gracefully('paused', PAUSED, YIELD_TIMEOUT_MS)
  }

  alive(): void {
    clearTimeout(this.#stall)
    this.#stall = setTimeout(() => {
      const message = `The trainer had no output for ${STALL_TIMEOUT_MS / 60_000} minutes.`
      this.gracefully('trainer_stalled', message, STOP_TIMEOUT_MS)
    }, STALL_TIMEOUT_MS)
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#stall)
    for (const cleanUp of this.#cleanUps) cleanUp()
  }

  #on(signal: AbortSignal, act: () => void): void {
    if (signal.aborted) return act()
    signal.addEventListener('abort', act)
    this.#cleanUps.push(() => signal.removeEventListener('abort', act))
  }
}

const measuresOf = (line: EpochMeasures): EpochMeasures => ({
  train_loss: line.train_loss,
  val_loss: line.val_loss,
  ...(line.eval_loss !== undefined && { eval_loss: line.eval_loss }),
  ...(line.eval_perplexity !== undefined && { eval_perplexity: line.eval_perplexity }),
})

/** Collects the output of the trainer. */
class TrainerOutput {
  readonly #report: JobReport
  readonly #pace: TrainingPace
  readonly #uploader: CheckpointUploader
  readonly #alive: () => void
  readonly #unit: string
  readonly #checkpointDir: string
  readonly #files: FinishedFile[] = []
  readonly #tail: string[] = []
  #result: TrainerResult | undefined
  #error: { code: string; message: string } | undefined

  constructor(
    { report, pace, progressUnit, job }: Pick<Supervision, 'report' | 'pace' | 'progressUnit' | 'job'>,
    uploader: CheckpointUploader,
    alive: () => void,
  ) {
    this.#report = report
    this.#pace = pace
    this.#unit = progressUnit
    this.#checkpointDir = job.checkpoint_dir
    this.#uploader = uploader
    this.#alive = alive
  }

  text(text: string): void {
    this.#alive()
    this.#tail.push(text.slice(0, 400))
    if (this.#tail.length > TAIL) this.#tail.shift()
    this.#report.log(text)
  }

  line(line: TrainerLine): void {
    this.#alive()
    switch (line.event) {
      case 'log':
        return this.text(line.level === 'warning' ? `Warning: ${line.message}` : line.message)
      case 'metric':
        return this.#report.metric(line.epoch, measuresOf(line))
      case 'checkpoint':
        return this.#uploader.offer({ ...line, path: join(this.#checkpointDir, basename(line.path)) })
      case 'resumed':
        return this.text(`Training resumes after ${this.#unit} ${line.epoch}.`)
      case 'artifact': {
        const { name: filename, path, size_bytes, sha256, content_type } = line
        this.#files.push({ filename, path, size_bytes, sha256, content_type })
        return
      }
      case 'result':
        this.#result = line
        return
      case 'error':
        this.#error = line
        return
      case 'progress':
        return this.#pace.note(line)
    }
  }

  /** Returns the result, or throws the reason why there is none. */
  outcome(
    exit: number,
    stopped: { code: string; message: string } | undefined,
  ): { files: readonly FinishedFile[]; result: TrainerResult } {
    if (exit === EXIT.done && this.#result) return { files: this.#files, result: this.#result }
    if (stopped) throw new AttemptError(stopped.code, stopped.message)
    if (exit === EXIT.checkpointed) {
      throw new AttemptError('drained', 'The trainer was asked to stop and wrote a checkpoint.')
    }
    if (exit === EXIT.cannotTrain) {
      const { code, message } = this.#error ?? {
        code: 'cannot_train',
        message: 'This data cannot be used for training.',
      }
      throw new AttemptError(code, message, { retryable: false })
    }
    // A known fault of the node, whose message says what to do.
    if (this.#error && this.#error.code !== 'trainer_failed')
      throw new AttemptError(this.#error.code, this.#error.message)
    throw new AttemptError('trainer_failed', this.#failure(exit))
  }

  #failure(exit: number): string {
    const how =
      exit > 128
        ? `The trainer was killed by signal ${exit - 128}${exit === 137 ? ', possibly for lack of memory' : ''}.`
        : `The trainer failed with status ${exit}.`
    const errorText = this.#error ? ` ${this.#error.message}` : ''
    const tail = this.#tail.length > 0 ? `\nIts last lines:\n${this.#tail.join('\n')}` : ''
    return how + errorText + tail
  }
}
