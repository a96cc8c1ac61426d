import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { type Output, type OutputFile, readOutput } from '../../platform/model-output.ts'

/** A file of a response, on this disk. */
export interface ReceivedFile extends OutputFile {
  path: string
  sha256: string
}

export interface SaveOptions {
  /** The folder for the files; without it, their bytes are only counted. */
  directory?: string
  onStep?: (step: number, total: number) => void
}

/** Reads a response that consists of steps and files, and saves the files. */
export const saveOutput = (
  body: AsyncIterable<Buffer>,
  { directory, onStep }: SaveOptions = {},
): Promise<Output<ReceivedFile>> =>
  readOutput(body, { take: (file, bytes) => save(file, bytes, directory), onStep })

async function save(
  { filename, content_type, modality, size_bytes }: OutputFile,
  bytes: AsyncIterable<Buffer>,
  directory: string | undefined,
): Promise<ReceivedFile> {
  const path = directory === undefined ? '' : join(directory, filename)
  const hash = createHash('sha256')
  await using file = directory === undefined ? undefined : await open(path, 'wx', 0o600)
  for await (const chunk of bytes) {
    hash.update(chunk)
    await file?.writeFile(chunk)
  }
  return { path, filename, content_type, modality, size_bytes, sha256: hash.digest('hex') }
}
