import type { StatusDetail } from '../../schemas/inference-task.ts'
import type { TrainerLine } from './trainer-lines.ts'

/** The interval between reports. Each one renews the lease and writes the run's row, so they must be rare. */
const REPORT_INTERVAL_MS = 5_000
/** The minimum time for measuring a pace. */
const MIN_MEASURED_MS = 2_000

type ProgressLine = Omit<Extract<TrainerLine, { event: 'progress' }>, 'event' | 'message'>

/** Reports a trainer's progress, and the remaining time at its pace since it started or resumed. */
export class TrainingPace {
  readonly #report: (detail: StatusDetail) => void
  #began: { at: number; fraction: number } | undefined
  #reportedAt = Number.NEGATIVE_INFINITY

  constructor(report: (detail: StatusDetail) => void) {
    this.#report = report
  }

  note({ epoch, epochs, fraction }: ProgressLine, now = performance.now()): void {
    this.#began ??= { at: now, fraction }
    if (now - this.#reportedAt < REPORT_INTERVAL_MS && fraction < 1) return
    this.#reportedAt = now
    const elapsedMs = now - this.#began.at
    const done = fraction - this.#began.fraction
    const eta_s =
      done > 0 && elapsedMs >= MIN_MEASURED_MS
        ? Math.round(((1 - fraction) * elapsedMs) / done / 1_000)
        : null
    // Round down: never report 100% before the end.
    const progress_pct = Math.min(100, Math.max(0, Math.floor(fraction * 100)))
    this.#report({ status: 'training', progress_pct, metadata: { step: epoch, of: epochs, eta_s } })
  }
}
