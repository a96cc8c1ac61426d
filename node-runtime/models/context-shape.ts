import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { GGUF_HEAD_BYTES, readGgufNumbers } from '../../domain/hub/gguf.ts'
import { type ContextShape, readContextShape } from '../../domain/models/context-memory.ts'

/** Returns the path of the GGUF file in a model's folder, or of the first part of a split one; undefined if there is none. */
export async function ggufIn(modelDir: string): Promise<string | undefined> {
  const names = await readdir(modelDir, { recursive: true })
  const [first] = names.filter((name) => name.endsWith('.gguf')).toSorted()
  return first === undefined ? undefined : join(modelDir, first)
}

/** Reads the shape of the context of the GGUF in a model's folder; undefined if it is unknown. */
export async function contextShapeIn(modelDir: string): Promise<ContextShape | undefined> {
  const path = await ggufIn(modelDir)
  if (path === undefined) return undefined
  await using file = await open(path)
  const { bytesRead, buffer } = await file.read(Buffer.alloc(GGUF_HEAD_BYTES), 0, GGUF_HEAD_BYTES, 0)
  const numbers = readGgufNumbers(buffer.subarray(0, bytesRead))
  return numbers && readContextShape(numbers)
}
