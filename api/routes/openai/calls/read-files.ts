import { ApiError } from '../../../../domain/errors.ts'
import {
  type Output,
  OUTPUT_TYPE,
  OutputError,
  type OutputFile,
  readOutput,
} from '../../../../platform/model-output.ts'
import type { NodeResponse } from '../../../gateway/links/buffered-response.ts'
import { refusalOf } from './model-call.ts'

/** A file that a model produced, in the memory of its response. */
export interface ProducedFile extends OutputFile {
  data: Buffer
}

/** Returns the files of a multi-step response. */
export async function readFiles({ head, body }: NodeResponse): Promise<Output<ProducedFile> | ApiError> {
  if (head.status !== 200) return refusalOf(head.status, body, undefined)
  if (head.contentType !== OUTPUT_TYPE) return new ApiError('internal', 'the model returned no files')
  try {
    return await readOutput(piecesOf(body), { take })
  } catch (err) {
    if (!(err instanceof OutputError)) throw err
    // Clients retry a 500 automatically, which only helps if the same request may succeed later.
    return new ApiError(err.retryable ? 'internal' : 'validation_failed', err.message)
  }
}

async function* piecesOf(body: Buffer): AsyncGenerator<Buffer> {
  yield body
}

async function take(file: OutputFile, bytes: AsyncIterable<Buffer>): Promise<ProducedFile> {
  // The whole response is in memory, so a file is one piece of it.
  let data: Buffer = Buffer.alloc(0)
  for await (const piece of bytes) data = piece
  return { ...file, data }
}
