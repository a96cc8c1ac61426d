import { copyFile, mkdir, open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Checkpoint, companionsOf } from './checkpoint.ts'
import { isFloat } from './preflight.ts'
import { elementsOf, headerFor, type TensorLocation, type TensorSpec } from './safetensors.ts'
import type { Output } from './tasks.ts'

/** A tensor of the result. */
export interface PlannedTensor {
  name: string
  source: TensorLocation
  elements: number
  out: Output
}

export interface Layout {
  /** The tensors to compute, in bf16. */
  tensors: PlannedTensor[]
  /** The names of the weight files, without their folder. */
  files: string[]
}

const BF16_BYTES = 2
/** Below the limit of a single PUT to an object store. */
const MAX_SHARD_BYTES = 4 * 1024 ** 3

/** Lays out the result like the first model: writes its files, the headers, and every tensor that is not computed. */
export async function prepareOutput(
  model: Checkpoint,
  dir: string,
  maxShardBytes = MAX_SHARD_BYTES,
): Promise<Layout> {
  await mkdir(dir, { recursive: true })
  for (const name of await companionsOf(model)) await copyFile(join(model.dir, name), join(dir, name))
  await writeFile(join(dir, 'config.json'), `${JSON.stringify(bf16Config(model.config), null, 2)}\n`)
  const shards = cut([...model.tensors], maxShardBytes)
  const layout: Layout = { tensors: [], files: [] }
  for (const [index, shard] of shards.entries()) {
    const name = shardName(index, shards.length)
    layout.files.push(name)
    layout.tensors.push(...(await openShard(join(dir, name), shard)))
  }
  if (shards.length > 1) await writeIndex(dir, shards)
  return layout
}

type NamedTensor = [string, TensorLocation]

const bytesOut = (place: TensorLocation): number =>
  isFloat(place) ? elementsOf(place.shape) * BF16_BYTES : place.bytes

function cut(tensors: readonly NamedTensor[], maxBytes: number): NamedTensor[][] {
  const shards: NamedTensor[][] = []
  let room = 0
  for (const tensor of tensors) {
    const bytes = bytesOut(tensor[1])
    if (shards.length === 0 || bytes > room) {
      shards.push([])
      room = maxBytes
    }
    shards.at(-1)?.push(tensor)
    room -= bytes
  }
  // Tensors that are copied may have odd lengths. They come last, so that they do not shift the alignment of others.
  return shards.map((shard) => shard.toSorted(([, a], [, b]) => Number(isFloat(b)) - Number(isFloat(a))))
}

/** Writes the header of a shard, its full length, and the tensors that are copied. */
async function openShard(path: string, shard: readonly NamedTensor[]): Promise<PlannedTensor[]> {
  const specs = shard.map(([name, place]): TensorSpec => ({
    name,
    dtype: isFloat(place) ? 'BF16' : place.dtype,
    shape: place.shape,
    bytes: bytesOut(place),
  }))
  const header = headerFor(specs)
  const planned: PlannedTensor[] = []
  await using file = await open(path, 'w')
  await file.write(header, 0, header.length, 0)
  let offset = header.length
  for (const [i, [name, source]] of shard.entries()) {
    if (isFloat(source))
      planned.push({ name, source, elements: elementsOf(source.shape), out: { path, offset } })
    else await file.write(await bytesOf(source), 0, source.bytes, offset)
    offset += specs[i]?.bytes ?? 0
  }
  await file.truncate(offset)
  return planned
}

async function bytesOf({ path, offset, bytes }: TensorLocation): Promise<Buffer> {
  await using file = await open(path, 'r')
  const { buffer } = await file.read(Buffer.alloc(bytes), 0, bytes, offset)
  return buffer
}

const shardName = (index: number, count: number): string => {
  const five = (n: number) => String(n).padStart(5, '0')
  return count === 1 ? 'model.safetensors' : `model-${five(index + 1)}-of-${five(count)}.safetensors`
}

async function writeIndex(dir: string, shards: readonly NamedTensor[][]): Promise<void> {
  const entries = shards.flatMap((shard, i) => shard.map(([name]) => [name, shardName(i, shards.length)]))
  const total = shards.flat().reduce((sum, [, place]) => sum + bytesOut(place), 0)
  const index = { metadata: { total_size: total }, weight_map: Object.fromEntries(entries) as unknown }
  await writeFile(join(dir, 'model.safetensors.index.json'), `${JSON.stringify(index, null, 2)}\n`)
}

function bf16Config(config: Record<string, unknown>): Record<string, unknown> {
  const written: Record<string, unknown> = { ...config, torch_dtype: 'bfloat16' }
  if ('dtype' in written) written['dtype'] = 'bfloat16'
  return written
}

/** Flushes everything in a folder, so that it survives a crash of the machine. */
export async function syncAll(dir: string, files: readonly string[]): Promise<void> {
  for (const name of [...files, '.']) {
    await using file = await open(join(dir, name), 'r')
    await file.sync()
  }
}
