import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'

const PLAIN_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/

/** Thrown for an unusable payload. `failure` is the platform's code for the reason. */
export class BadPayloadError extends Error {
  override readonly name = 'BadPayloadError'
  readonly failure: string

  constructor(failure: string, message: string) {
    super(message)
    this.failure = failure
  }
}

/** The node's announcement of a payload. */
export interface PayloadAnnouncement {
  file: unknown
  sizeBytes: unknown
  sha256: unknown
}

/** Returns the path of a payload in the exchange folder; throws unless `name` is a plain file name. */
export function payloadPath(folder: string, name: unknown): string {
  if (folder === '') throw new BadPayloadError('refused', 'this server has no folder for payloads')
  if (typeof name !== 'string' || !PLAIN_NAME.test(name)) {
    throw new BadPayloadError('refused', 'file must be the plain name of a file in the exchange folder')
  }
  return join(folder, name)
}

/** Opens a payload and verifies its size and digest. */
export async function openVerified(
  folder: string,
  { file: name, sizeBytes, sha256 }: PayloadAnnouncement,
): Promise<FileHandle> {
  const path = payloadPath(folder, name)
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await open(path, flags).catch(() => {
    throw new BadPayloadError('payload_gone', 'there is no such file in the exchange folder')
  })
  try {
    const found = await file.stat()
    if (!found.isFile()) throw new BadPayloadError('refused', 'the payload is not a regular file')
    if (found.size !== sizeBytes) {
      throw new BadPayloadError(
        'size_mismatch',
        `the payload has ${found.size} bytes, not ${String(sizeBytes)}`,
      )
    }
    const hash = createHash('sha256')
    const bytes = file.createReadStream({ autoClose: false, start: 0, highWaterMark: 1 << 20 })
    for await (const chunk of bytes) hash.update(chunk as Buffer)
    if (hash.digest('hex') !== sha256) {
      throw new BadPayloadError(
        'digest_mismatch',
        'the bytes of the payload do not have the announced digest',
      )
    }
    return file
  } catch (err) {
    await file.close()
    throw err
  }
}
