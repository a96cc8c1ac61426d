import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { request } from 'undici'
import { filesOf } from '../../domain/task-types/index.ts'
import type { PublicConnections } from '../../platform/egress/public-connections.ts'
import { downloadPublic, TooLarge } from '../../platform/egress/public-download.ts'
import { SendError, type SendFailure } from '../../platform/egress/public-sender.ts'
import { MAX_INPUT_BYTES } from '../../schemas/inference-task.ts'
import type { TaskClaim } from '../../schemas/task-claim.ts'

const DATA_URL = /^data:[^,]{0,200};base64,/
/** The type is not known; servers recognise files by their bytes. */
const PREFIX = 'data:application/octet-stream;base64,'

/** An input whose file cannot be had; the message names the field. */
export class InputFileError extends Error {
  override readonly name = 'InputFileError'
  readonly retryable: boolean

  constructor(message: string, { retryable, cause }: { retryable: boolean; cause?: unknown }) {
    super(message, { cause })
    this.retryable = retryable
  }
}

/** Reasons that may have passed at a later try. */
const PASSING: ReadonlySet<SendFailure> = new Set([
  'name_not_resolved',
  'connect_failed',
  'connect_timeout',
  'timeout',
  'connection_closed',
])

export interface FileSources {
  connections: PublicConnections
  /** The folder for downloads. */
  workDir: string
}

type Claimed = Pick<TaskClaim, 'task_type' | 'files' | 'task_id'>

/**
 * Returns the input with the files of its addresses as `data:` URLs, because model servers have no network. Uploads come
 * from the platform's own storage; other addresses must be public ones.
 */
export async function withFiles(
  sources: FileSources,
  { task_type = '', files = [], task_id }: Claimed,
  body: Buffer,
  signal: AbortSignal,
): Promise<Buffer> {
  const fields = filesOf(task_type)
  if (fields.length === 0) return body
  const input = JSON.parse(body.toString()) as Record<string, unknown>
  for (const field of fields) {
    const value = input[field]
    if (typeof value !== 'string' || DATA_URL.test(value)) continue
    const uploaded = files.find((file) => file.field === field)
    const bytes = uploaded
      ? await fetchUpload(field, uploaded.url, signal)
      : await fetchPublic(sources, { field, url: value, owner: task_id }, signal)
    input[field] = PREFIX + bytes.toString('base64')
  }
  return Buffer.from(JSON.stringify(input))
}

async function fetchUpload(field: string, url: string, signal: AbortSignal): Promise<Buffer> {
  const answer = await request(url, { signal })
  const bytes = Buffer.from(await answer.body.arrayBuffer())
  if (answer.statusCode === 200) return bytes
  const retryable = answer.statusCode >= 500
  throw new InputFileError(`${field}: the uploaded file could not be read (${answer.statusCode})`, {
    retryable,
  })
}

async function fetchPublic(
  { connections, workDir }: FileSources,
  { field, url, owner }: { field: string; url: string; owner: string },
  signal: AbortSignal,
): Promise<Buffer> {
  await mkdir(workDir, { recursive: true })
  const folder = await mkdtemp(join(workDir, 'input-'))
  const to = join(folder, 'file')
  try {
    await downloadPublic(connections, url, { owner, to, maxBytes: MAX_INPUT_BYTES, signal })
    return await readFile(to)
  } catch (err) {
    if (!(err instanceof SendError || err instanceof TooLarge)) throw err
    const retryable = err instanceof SendError && PASSING.has(err.reason)
    const message = `${field} could not be fetched: ${err.message}. An upload is valid for an hour; other files need a public HTTPS address.`
    throw new InputFileError(message, { retryable, cause: err })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
