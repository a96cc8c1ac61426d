import { foldAdapters } from './fold-adapters.ts'
import { PAGE_BYTES } from './output-files.ts'
import { type Answer, BLOCK, type Input, MAGNITUDES, type Output, type Slice, type Task } from './tasks.ts'
import type { Bench } from './workbench.ts'

const BF16_BYTES = 2

/** Performs one task. The result does not depend on how a tensor is cut into slices and chunks. */
export function perform(bench: Bench, task: Task): Answer {
  bench.arena.reset()
  switch (task.kind) {
    case 'dots':
      return dots(bench, task)
    case 'magnitudes':
      return magnitudes(bench, task)
    case 'combine':
      return { isFinite: combine(bench, task) }
    case 'ties':
      return { isFinite: ties(bench, task) }
    case 'dare':
      return { isFinite: dare(bench, task) }
    case 'adapter':
      return { isFinite: foldAdapters(bench, task) }
    case 'copy':
      return { isFinite: copy(bench, task) }
  }
}

type TaskOf<K extends Task['kind']> = Extract<Task, { kind: K }>

function dots(bench: Bench, { a, b, ...slice }: TaskOf<'dots'>): Answer<TaskOf<'dots'>> {
  const { kernels, arena } = bench
  const sums = new Float64Array(Math.ceil(slice.count / BLOCK) * 3)
  const out = arena.take(24)
  eachChunk(bench, { inputs: [a, b], ...slice }, ({ at: [at = 0, bt = 0], count, done }) => {
    for (const { from, size } of blocks(count)) {
      kernels.dots(at + from * BF16_BYTES, bt + from * BF16_BYTES, size, out)
      sums.set(new Float64Array(kernels.memory.buffer, out, 3), ((done + from) / BLOCK) * 3)
    }
  })
  return { sums }
}

/** Writes one table of counts per model into the shared memory of the task. */
function magnitudes(
  bench: Bench,
  { base, inputs, tables: shared, ...slice }: TaskOf<'magnitudes'>,
): Answer<TaskOf<'magnitudes'>> {
  const { kernels, arena } = bench
  const bytes = 2 * MAGNITUDES * 4
  const tables = inputs.map(() => arena.take(bytes))
  for (const table of tables) arena.view(table, bytes).fill(0)
  eachChunk(bench, { inputs: [base, ...inputs], ...slice }, ({ at: [from = 0, ...others], count }) => {
    others.forEach((other, model) => kernels.countMagnitudes(from, other, count, tables[model] ?? 0))
  })
  tables.forEach((table, model) => {
    const both = new Uint32Array(kernels.memory.buffer, table, 2 * MAGNITUDES)
    const sum = new Uint32Array(shared, model * MAGNITUDES * 4, MAGNITUDES)
    for (let i = 0; i < MAGNITUDES; i++) sum[i] = (both[i] ?? 0) + (both[MAGNITUDES + i] ?? 0)
  })
  return { counted: true }
}

function combine(bench: Bench, { a, b, p, q, out, ...slice }: TaskOf<'combine'>): boolean {
  const { kernels } = bench
  return writeChunks(bench, { inputs: [a, b], out, ...slice }, ({ at: [at = 0, bt = 0], to, count }) =>
    kernels.combine(at, bt, to, count, p, q),
  )
}

function ties(bench: Bench, { base, inputs, out, ...slice }: TaskOf<'ties'>): boolean {
  const { kernels, arena } = bench
  const sums = arena.take(BLOCK * 16)
  arena.view(sums, BLOCK * 16).fill(0)
  const left = inputs.map(({ quota }) => quota)
  const all = [base, ...inputs.map(({ input }) => input)]
  return writeChunks(bench, { inputs: all, out, ...slice }, ({ at: [from = 0, ...others], to, count }) => {
    let isBad = 0
    for (const { from: skip, size } of blocks(count)) {
      const offset = skip * BF16_BYTES
      inputs.forEach(({ threshold, weight }, model) => {
        const x = (others[model] ?? 0) + offset
        left[model] = kernels.tiesAdd(from + offset, x, size, sums, threshold, left[model] ?? 0, weight)
      })
      isBad |= kernels.tiesStore(from + offset, sums, to + offset, size)
    }
    return isBad
  })
}

function dare(bench: Bench, { base, inputs, limit, out, ...slice }: TaskOf<'dare'>): boolean {
  const { kernels, arena } = bench
  const sums = arena.take(BLOCK * 4)
  const all = [base, ...inputs.map(({ input }) => input)]
  return writeChunks(
    bench,
    { inputs: all, out, ...slice },
    ({ at: [from = 0, ...others], to, count, done }) => {
      let isBad = 0
      for (const { from: skip, size } of blocks(count)) {
        const offset = skip * BF16_BYTES
        kernels.widenTo(from + offset, sums, size)
        const index = slice.first + done + skip
        inputs.forEach(({ scale, key, salt }, model) => {
          const x = (others[model] ?? 0) + offset
          // Beyond 2^32 elements the upper half of the index goes into the key.
          const upper = Math.floor(index / 2 ** 32)
          kernels.dareAdd(from + offset, x, size, sums, index >>> 0, key + upper, salt, limit, scale)
        })
        isBad |= kernels.narrowTo(sums, to + offset, size)
      }
      return isBad
    },
  )
}

function copy(bench: Bench, { input, out, ...slice }: TaskOf<'copy'>): boolean {
  const { kernels, arena } = bench
  const sums = arena.take(BLOCK * 4)
  return writeChunks(bench, { inputs: [input], out, ...slice }, ({ at: [from = 0], to, count }) => {
    let isBad = 0
    for (const { from: skip, size } of blocks(count)) {
      kernels.widenTo(from + skip * BF16_BYTES, sums, size)
      isBad |= kernels.narrowTo(sums, to + skip * BF16_BYTES, size)
    }
    return isBad
  })
}

interface Chunk {
  /** The addresses of each input's elements. */
  at: readonly number[]
  count: number
  /** The number of elements in the slice before this chunk. */
  done: number
}

/** Reads a slice chunk by chunk; every chunk but the last consists of whole blocks. */
function eachChunk(
  { inputs: files, chunkBytes }: Bench,
  { inputs, first, count: all }: { inputs: readonly Input[] } & Slice,
  act: (chunk: Chunk) => void,
): void {
  const size = chunkElements(chunkBytes, inputs.length)
  const rooms = inputs.map((input) => files.room(input, Math.min(size, all)))
  for (let done = 0; done < all; done += size) {
    const count = Math.min(size, all - done)
    inputs.forEach((input, i) => files.read(input, { first: first + done, count }, rooms[i] ?? 0))
    act({ at: rooms, count, done })
  }
}

/** Reads a slice chunk by chunk and writes the elements that `act` stores at `to`; returns whether all are finite. */
export function writeChunks(
  { inputs: files, outputs, arena, chunkBytes }: Bench,
  { inputs, out, first, count: all }: { inputs: readonly Input[]; out: Output } & Slice,
  act: (chunk: Chunk & { to: number }) => number,
): boolean {
  const size = chunkElements(chunkBytes, inputs.length + 1)
  const rooms = inputs.map((input) => files.room(input, Math.min(size, all)))
  const room = arena.take(Math.min(size, all) * BF16_BYTES + PAGE_BYTES)
  let isBad = 0
  for (let done = 0, count = 0; done < all; done += count) {
    const position = out.offset + (first + done) * BF16_BYTES
    const lead = position % PAGE_BYTES
    // The first chunk is shorter, so that all others start at a page boundary of the file.
    count = Math.min(size - Math.ceil(lead / BF16_BYTES), all - done)
    inputs.forEach((input, i) => files.read(input, { first: first + done, count }, rooms[i] ?? 0))
    isBad |= act({ at: rooms, to: room + lead, count, done })
    outputs.write(out.path, position, { at: room + lead, bytes: count * BF16_BYTES })
  }
  return isBad === 0
}

/** Returns the number of elements in as many whole blocks as fit, at least one block. */
const chunkElements = (chunkBytes: number, buffers: number): number =>
  Math.max(1, Math.floor(chunkBytes / BF16_BYTES / buffers / BLOCK)) * BLOCK

function* blocks(count: number): Generator<{ from: number; size: number }> {
  for (let from = 0; from < count; from += BLOCK) yield { from, size: Math.min(BLOCK, count - from) }
}
