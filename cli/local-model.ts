import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { basename, join, relative, sep } from 'node:path'
import { GGUF_HEAD_BYTES, readGgufHead } from '../domain/hub/gguf.ts'
import { isGgufModel } from '../domain/hub/weights.ts'
import type { ImportFiles } from '../domain/models/import.ts'
import { usageError } from './cli-error.ts'

/** A file of a model on this machine, and its path in the model. */
export interface LocalPath {
  path: string
  from: string
}

/** Weights as pickles can run code when they are loaded, so they are not uploaded. */
const LEFT_OUT = /(^|\/)\.|\.(bin|pt|pth|pkl|ckpt|py)$/

/** Lists the files of a folder that belong to a model, or the one file that is a model. */
export async function filesBelow(path: string): Promise<LocalPath[]> {
  const info = statSync(path, { throwIfNoEntry: false })
  if (!info) throw usageError(`There is nothing at ${path}.`)
  if (info.isFile()) return [{ path: basename(path), from: path }]
  const names = await readdir(path, { recursive: true, withFileTypes: true })
  const files = names
    .filter((entry) => entry.isFile() || entry.isSymbolicLink())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((from) => ({ from, path: relative(path, from).split(sep).join('/') }))
    .filter((file) => !LEFT_OUT.test(file.path))
  if (files.length === 0) throw usageError(`There are no files of a model in ${path}.`)
  return files
}

/** Reads the files of a model that say what it is. */
export function readFacts(files: readonly LocalPath[]): ImportFiles {
  const json = (name: string): unknown => {
    const file = files.find(({ path }) => path === name)
    return file && readObject(file)
  }
  const [gguf] = files.filter(({ path }) => isGgufModel(path)).toSorted((a, b) => (a.path < b.path ? -1 : 1))
  return {
    paths: files.map(({ path }) => path),
    config: json('config.json'),
    index: json('model_index.json'),
    modules: json('modules.json'),
    gguf: gguf && { path: gguf.path, head: readGgufHead(firstBytes(gguf.from)) },
  }
}

function readObject({ path, from }: LocalPath): object {
  const text = readFileSync(from, 'utf8')
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value
  } catch (err) {
    if (!(err instanceof SyntaxError)) throw err
  }
  throw usageError(`${path} is not the JSON of a model.`)
}

function firstBytes(from: string): Uint8Array {
  const bytes = Buffer.alloc(GGUF_HEAD_BYTES)
  const file = openSync(from, 'r')
  try {
    return bytes.subarray(0, readSync(file, bytes))
  } finally {
    closeSync(file)
  }
}
