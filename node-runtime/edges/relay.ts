import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { putFile, REFUSED, TransferError } from '../weights/transfer.ts'
import type { Payload } from './payload.ts'

/** An upload that a gateway signed for exactly this content. */
export interface RelayUpload {
  url: string
  headers: Record<string, string>
}

/**
 * Uploads a payload to the object store for a consumer that can't connect directly. The object store enforces the size
 * and digest in the signed URL.
 */
export async function relayPayload(
  { path }: Payload,
  { url, headers }: RelayUpload,
  signal: AbortSignal,
): Promise<void> {
  try {
    await putFile(url, path, { headers, signal })
  } catch (err) {
    if (signal.aborted) throw new EdgeError('cancelled', 'the upload was cancelled', { cause: err })
    if (err instanceof TransferError) {
      const failure = err.status === REFUSED ? 'expired' : 'refused'
      throw new EdgeError(failure, err.message, { cause: err })
    }
    throw new EdgeError('unreachable', `the store: ${(err as Error).message}`, { cause: err })
  }
}
