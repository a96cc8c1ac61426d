import type { Readable } from 'node:stream'
import type { Static, TSchema } from 'typebox'
import { invalid } from '../../../domain/errors.ts'
import { BYTES_URL } from '../../../platform/data-url.ts'
import type { AnyRequest } from '../route.ts'
import { checkPace } from './body.ts'
import { type MultipartForm, readMultipart } from './multipart.ts'

/** A form's file in memory, encoded for a `data:` URL. */
export interface BufferedFile {
  readonly sizeBytes: number
  /** The base64 of the bytes, in pieces. */
  readonly base64: readonly Buffer[]
}

/**
 * Bytes per piece. Storing chunks as received would let a client with tiny chunks use many times the memory that we
 * count. The size is a multiple of 3, so each piece's base64 needs no padding and pieces can be concatenated.
 */
const PIECE = 48 * 1024

/** Reads a form, with its file in memory. Rejects an empty file. */
export async function readBufferedFile<F extends TSchema>(
  { req, hold }: Pick<AnyRequest, 'req' | 'hold'>,
  form: Pick<MultipartForm<F, BufferedFile>, 'file' | 'limit' | 'fields'>,
): Promise<{ fields: Static<F>; file: BufferedFile }> {
  const read = await readMultipart(req, { ...form, consume: ({ stream }) => holdFile(stream, hold) })
  if (read.file.sizeBytes === 0) throw invalid(['body', form.file], 'the file is empty', 'too_short')
  return read
}

/** Reads a file into memory that `hold` reserves piece by piece. */
async function holdFile(stream: Readable, hold: (bytes: number) => void): Promise<BufferedFile> {
  const base64: Buffer[] = []
  const piece = Buffer.allocUnsafe(PIECE)
  let [sizeBytes, filled] = [0, 0]
  const add = (): void => {
    const text = Buffer.from(piece.toString('base64', 0, filled), 'latin1')
    hold(text.length)
    base64.push(text)
    filled = 0
  }
  const firstAt = performance.now()
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    checkPace(firstAt)
    sizeBytes += chunk.length
    for (let at = 0; at < chunk.length;) {
      const copied = chunk.copy(piece, filled, at)
      at += copied
      filled += copied
      if (filled === PIECE) add()
    }
  }
  if (filled > 0) add()
  return { sizeBytes, base64 }
}

/** Returns the JSON text of an object with the file as an additional member, a `data:` URL. */
export function jsonWithFile(values: object, name: string, { base64 }: BufferedFile): Buffer {
  const json = JSON.stringify(values).slice(0, -1)
  const begun = `${json}${json === '{' ? '' : ','}${JSON.stringify(name)}:"${BYTES_URL}`
  return Buffer.concat([Buffer.from(begun), ...base64, Buffer.from('"}')])
}
