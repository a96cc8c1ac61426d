import type { EpochMeasures } from '../control/spool.ts'

/** A file that the trainer has finished writing. */
export interface TrainerFile {
  path: string
  size_bytes: number
  sha256: string
}

/** The lines of a trainer's output (node-runtime/trainers/README.md). */
export type TrainerLine =
  | { event: 'log'; level: string; message: string }
  | { event: 'progress'; epoch: number; epochs: number; fraction: number; message: string }
  | ({ event: 'metric'; epoch: number } & EpochMeasures)
  | ({ event: 'checkpoint'; epoch: number } & TrainerFile)
  | { event: 'resumed'; epoch: number }
  | ({ event: 'artifact'; name: string; content_type: string } & TrainerFile)
  | ({ event: 'result' } & TrainerResult)
  | { event: 'error'; code: string; message: string }

/** The fields that describe input and output are absent if the model's task type defines them. */
export interface TrainerResult {
  metrics: Record<string, unknown>
  input_schema?: Record<string, unknown>
  output_schema?: Record<string, unknown>
  example_input?: Record<string, unknown>
  example_output?: Record<string, unknown>
}

const EVENTS = new Set(['log', 'progress', 'metric', 'checkpoint', 'resumed', 'artifact', 'result', 'error'])

/** Parses a line of the protocol; returns `undefined` for other output, such as a library's. */
export function parseTrainerLine(text: string): TrainerLine | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    const value = JSON.parse(text) as { event?: unknown }
    // Trainers are part of this repository, so a known event name is enough to trust the other fields.
    return typeof value.event === 'string' && EVENTS.has(value.event) ? (value as TrainerLine) : undefined
  } catch {
    return undefined
  }
}
