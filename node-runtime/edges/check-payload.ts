import { type FileHandle, open } from 'node:fs/promises'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { headerLengthOf, LENGTH_BYTES, readHeader } from '../../domain/cohorts/payload/safetensors.ts'
import { checkTensors, type PayloadSpace } from '../../domain/cohorts/payload/space-tensors.ts'
import type { Payload } from './payload.ts'

/** The terms that both ends of an edge have agreed on. */
export interface AgreedTerms {
  encoding: 'safetensors' | 'llama-state'
  fingerprint: string
  space: PayloadSpace
}

/** The producer's claims about its payload. */
export interface PayloadClaims {
  sizeBytes: number
  sha256: string
  fingerprint: string
}

/**
 * Checks a payload whose digest was computed, before a model server sees it. The state of a llama.cpp context can't be
 * validated from its contents, and a foreign one may crash its reader. So we rely on its digest, and on the space that
 * its producer signed.
 */
export async function checkPayload(
  payload: Payload,
  stated: PayloadClaims,
  agreed: AgreedTerms,
): Promise<void> {
  if (stated.fingerprint !== agreed.fingerprint)
    throw new EdgeError('space_mismatch', 'the producer names a different space than the one agreed on')
  if (payload.sizeBytes !== stated.sizeBytes)
    throw new EdgeError(
      'size_mismatch',
      `the payload has ${payload.sizeBytes} bytes, not ${stated.sizeBytes}`,
    )
  if (payload.sha256 !== stated.sha256)
    throw new EdgeError('digest_mismatch', 'the payload does not match the digest that the producer stated')
  if (agreed.encoding === 'llama-state') return
  await using file = await open(payload.path, 'r')
  const length = headerLengthOf(await readAt(file, 0, LENGTH_BYTES), payload.sizeBytes)
  const header = await readAt(file, LENGTH_BYTES, length)
  checkTensors(readHeader(header, payload.sizeBytes - LENGTH_BYTES - length), agreed)
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Uint8Array> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
  return buffer.subarray(0, bytesRead)
}
