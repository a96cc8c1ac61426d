import type { Checkpoint } from './checkpoint.ts'
import { MergeError } from './merge-error.ts'
import type { PlannedTensor } from './output-layout.ts'
import type { MergePool } from './pool.ts'
import type { TensorLocation } from './safetensors.ts'
import type { Input, Slice, Task } from './tasks.ts'

/** The number of elements in one task, a multiple of every block size. */
export const SLICE = 4 * 1024 * 1024

/** Computes the elements of one tensor. */
export type Recipe = (
  tensor: PlannedTensor,
  tools: { pool: MergePool; onWritten: (elements: number) => void },
) => Promise<void>

export type Tools = Parameters<Recipe>[1]

export const inputOf = ({ path, offset, dtype }: TensorLocation): Input => ({ path, offset, dtype })

export function inputIn({ tensors, label }: Checkpoint, name: string): Input {
  const place = tensors.get(name)
  if (!place) throw new MergeError('tensor_missing', `${name} is missing in ${label}.`)
  return inputOf(place)
}

export function slicesOf(elements: number, size = SLICE): Slice[] {
  return Array.from({ length: Math.ceil(elements / size) }, (_, i) => ({
    first: i * size,
    count: Math.min(size, elements - i * size),
  }))
}

/** Computes and writes the slices of a tensor; `make` creates the task of each slice. */
export async function writeSlices<T extends Task>(
  name: string,
  slices: readonly Slice[],
  { pool, onWritten, make }: Tools & { make: (slice: Slice, index: number) => T },
): Promise<void> {
  await Promise.all(
    slices.map(async (slice, index) => {
      const answer = (await pool.run<Task>(make(slice, index), { isUrgent: true })) as { isFinite: boolean }
      if (!answer.isFinite) {
        throw notFinite(name)
      }
      onWritten(slice.count)
    }),
  )
}

/** A model with its weight in the merge. */
export interface WeightedModel {
  model: Checkpoint
  weight: number
}

export const notFinite = (name: string): MergeError =>
  new MergeError('not_finite', `${name} would have infinite or NaN values because one of the sources does.`)
