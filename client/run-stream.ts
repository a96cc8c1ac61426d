import type { EpochLoss, RunProgress, StreamedType, TrainingRun } from '../schemas/training-run.ts'
import { HearthError } from './errors.ts'
import { eventsOf } from './event-stream.ts'
import type { DescribedMethod } from './operations.ts'
import { pause } from './pause.ts'
import type { CallOptions, Operation, Transport } from './transport.ts'

/** An event of a run. Its `id` is a position from which to resume. */
export type RunEvent = { id: string } & (
  | { event: 'log'; data: { timestamp: string; message: string } }
  | { event: 'metric'; data: EpochLoss & { timestamp: string } }
  | { event: 'progress'; data: RunProgress }
  | { event: 'event'; data: { timestamp: string; event_type: string; detail: string | null } }
  | { event: 'status'; data: Pick<TrainingRun, 'status' | 'attempt' | 'paused' | 'waiting'> }
  | { event: 'done'; data: TrainingRun }
)

export interface RunStreamQuery {
  /** The position after which the stream starts; by default the start of the run. */
  after?: string
  /** The event types to yield; all by default. `done` is always included. */
  types?: readonly StreamedType[]
}

const STREAM: Operation = { id: 'streamTrainingRun', method: 'GET', path: '/training/runs/{run_id}/stream' }
const RECONNECT_DELAY_MS = 2_000

type Stream = DescribedMethod &
  ((run_id: string, query?: RunStreamQuery, options?: CallOptions) => AsyncGenerator<RunEvent, void>)

/** Follows a run until it is `done`. If the connection ends earlier, reopens the stream at the same position. */
export function runStream(transport: Transport): Stream {
  async function* follow(
    runId: string,
    { after, types }: RunStreamQuery = {},
    options: CallOptions = {},
  ): AsyncGenerator<RunEvent, void> {
    const { signal } = options
    let cursor = after
    for (;;) {
      const query = { after: cursor, types: types?.join(',') }
      const response = await transport.open(STREAM, { ids: [runId], query, options })
      try {
        if (response.body) {
          for await (const event of eventsOf(response.body)) {
            yield event as RunEvent
            if (event.event === 'done') return
            cursor = event.id
          }
        }
      } catch (err) {
        signal?.throwIfAborted()
        if (err instanceof HearthError) throw err
      }
      await pause(RECONNECT_DELAY_MS, signal)
    }
  }
  return Object.assign(follow, { operation: STREAM })
}
