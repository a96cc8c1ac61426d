import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { basename, join, relative, sep } from 'node:path'
import { readGgufLayout } from '../domain/hub/gguf-layout.ts'
import { GGUF_HEAD_BYTES, readGgufHead } from '../domain/hub/gguf.ts'
import { isGgufModel } from '../domain/hub/weights.ts'
import type { ImportFiles } from '../domain/models/import.ts'
import type { GgufFile, WeightsFile } from '../domain/models/readable.ts'
import { usageError } from './cli-error.ts'

/** A local model file and its path within the model. */
export interface LocalPath {
  path: string
  from: string
}

const LFS_POINTER = 'version https://git-lfs'
const LENGTH_BYTES = 8
/** The header limit of the safetensors library. */
const MAX_HEAD_BYTES = 100_000_000

/** Pickled weights can run code when they're loaded, so we don't upload them. */
const LEFT_OUT = /(^|\/)\.|\.(bin|pt|pth|pkl|ckpt|py)$/

/** Lists the model files in a folder, or the single file that is the model. */
export async function filesBelow(path: string): Promise<LocalPath[]> {
  const info = statSync(path, { throwIfNoEntry: false })
  if (!info) throw usageError(`${path} does not exist.`)
  if (info.isFile()) return [{ path: basename(path), from: path }]
  const names = await readdir(path, { recursive: true, withFileTypes: true })
  const files = names
    .filter((entry) => entry.isFile() || entry.isSymbolicLink())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((from) => ({ from, path: relative(path, from).split(sep).join('/') }))
    .filter((file) => !LEFT_OUT.test(file.path))
  if (files.length === 0) throw usageError(`${path} contains no model files.`)
  return files
}

/** Reads the files that describe a model. */
export function readFacts(files: readonly LocalPath[]): ImportFiles {
  const json = (name: string, isList = false): unknown => {
    const file = files.find(({ path }) => path === name)
    return file && readJson(file, isList)
  }
  const ggufs = files.filter(({ path }) => isGgufModel(path)).toSorted((a, b) => (a.path < b.path ? -1 : 1))
  const [gguf] = ggufs
  return {
    paths: files.map(({ path }) => path),
    config: json('config.json'),
    index: json('model_index.json'),
    modules: json('modules.json', true),
    shardIndex: json('model.safetensors.index.json'),
    weights: files.filter(({ path }) => path.endsWith('.safetensors')).map(weightsFile),
    ggufs: ggufs.map(ggufFile),
    gguf: gguf && { path: gguf.path, head: readGgufHead(bytesAt(gguf.from, 0, GGUF_HEAD_BYTES)) },
  }
}

/** Reads a JSON file that contains an object, or a list. */
function readJson({ path, from }: LocalPath, isList: boolean): object {
  const text = readFileSync(from, 'utf8')
  try {
    const value: unknown = JSON.parse(text)
    if (isList ? Array.isArray(value) : isObject(value)) return value as object
  } catch (err) {
    if (!(err instanceof SyntaxError)) throw err
  }
  throw usageError(
    `${path} is not valid model JSON: expected ${isList ? 'a list' : 'an object'}. Download it again.`,
  )
}

/** Reads the header of a safetensors file: its length in 8 bytes, then JSON with the offsets of each tensor. */
function weightsFile({ path, from }: LocalPath): WeightsFile {
  const sizeBytes = statSync(from).size
  const start = bytesAt(from, 0, LFS_POINTER.length)
  if (start.toString() === LFS_POINTER) return { path, sizeBytes, head: 'lfs-pointer' }
  const length = start.length < LENGTH_BYTES ? Infinity : Number(start.readBigUInt64LE())
  if (length > Math.min(sizeBytes, MAX_HEAD_BYTES)) return { path, sizeBytes, head: undefined }
  try {
    const head: unknown = JSON.parse(bytesAt(from, LENGTH_BYTES, length).toString())
    if (!isObject(head)) return { path, sizeBytes, head: undefined }
    const tensors = Object.keys(head).filter((name) => name !== '__metadata__')
    const dataBytes = tensors.reduce((end, name) => Math.max(end, endOf(head[name])), 0)
    if (Number.isNaN(dataBytes)) return { path, sizeBytes, head: undefined }
    return { path, sizeBytes, head: { tensors, endBytes: LENGTH_BYTES + length + dataBytes } }
  } catch (err) {
    if (err instanceof SyntaxError) return { path, sizeBytes, head: undefined }
    throw err
  }
}

/** Reads a GGUF until its header is complete. The header contains the vocabulary, which can be megabytes long. */
function ggufFile({ path, from }: LocalPath): GgufFile {
  const sizeBytes = statSync(from).size
  for (let length = GGUF_HEAD_BYTES; ; length *= 8) {
    const layout = readGgufLayout(bytesAt(from, 0, Math.min(length, sizeBytes)))
    if (layout !== 'cut' || length >= sizeBytes) return { path, sizeBytes, layout }
    if (length >= MAX_HEAD_BYTES) return { path, sizeBytes, layout: undefined }
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the end offset that the header declares for a tensor; NaN if there is none. */
function endOf(tensor: unknown): number {
  const offsets: unknown = isObject(tensor) ? tensor['data_offsets'] : undefined
  const end: unknown = Array.isArray(offsets) ? offsets[1] : undefined
  return typeof end === 'number' ? end : Number.NaN
}

function bytesAt(from: string, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  const file = openSync(from, 'r')
  try {
    return bytes.subarray(0, readSync(file, bytes, { position }))
  } finally {
    closeSync(file)
  }
}
