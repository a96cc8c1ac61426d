import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { request } from 'undici'
import { filesOf } from '../../domain/task-types/index.ts'
import { BYTES_URL } from '../../platform/data-url.ts'
import type { PublicConnections } from '../../platform/egress/public-connections.ts'
import { downloadPublic, FileTooLargeError } from '../../platform/egress/public-download.ts'
import { SendError, type SendFailure } from '../../platform/egress/public-sender.ts'
import { MAX_INPUT_BYTES } from '../../schemas/inference-task.ts'
import type { InputFile } from '../../schemas/nodes/link.ts'
import type { TaskClaim } from '../../schemas/nodes/task-claim.ts'

const DATA_URL = /^data:[^,]{0,200};base64,/

/** Thrown if an input file can't be fetched. The message names the field. */
export class InputFileError extends Error {
  override readonly name = 'InputFileError'
  readonly retryable: boolean

  constructor(message: string, { retryable, cause }: { retryable: boolean; cause?: unknown }) {
    super(message, { cause })
    this.retryable = retryable
  }
}

/** Failures that may be temporary. */
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

export interface FilesOfInput {
  /** The fields that contain addresses, with the URLs of uploads. */
  files: readonly InputFile[]
  /** The account, task or stage whose limit on concurrent DNS look-ups applies to these addresses. */
  owner: string
}

/** Returns the fields of a claimed task that may contain addresses. */
export const filesOfClaim = ({ task_type = '', files = [], task_id }: TaskClaim): FilesOfInput =>
  filesOfInput(task_id, task_type, files)

/** Returns the fields of an input that may contain addresses. */
export const filesOfInput = (
  owner: string,
  taskType: string,
  files: NonNullable<TaskClaim['files']> = [],
): FilesOfInput => ({
  files: filesOf(taskType).map((field) => files.find((file) => file.field === field) ?? { field }),
  owner,
})

/** Returns the addresses in these fields of an input, not counting files that are inlined as `data:` URLs. */
export const addressesIn = (
  input: Record<string, unknown>,
  fields: readonly string[],
): { field: string; url: string }[] =>
  fields.flatMap((field) => {
    const url = input[field]
    return typeof url === 'string' && !DATA_URL.test(url) ? [{ field, url }] : []
  })

/** A file is in memory at most twice, raw and as base64, so this many requests take 700 MB in the worst case. */
const MAX_REQUESTS = 4

/** Fetches input files on behalf of model servers, which have no network. */
export class InputFiles {
  readonly #sources: FileSources
  #requests = 0

  constructor(sources: FileSources) {
    this.#sources = sources
  }

  /**
   * Takes a slot for a request from a link, until the result is disposed of; undefined if all are taken. The request
   * then becomes a task, which waits for a slot on the node.
   */
  enter(): Disposable | undefined {
    if (this.#requests >= MAX_REQUESTS) return undefined
    this.#requests += 1
    return { [Symbol.dispose]: () => void (this.#requests -= 1) }
  }

  /**
   * Returns the input with its files as `data:` URLs. Uploads come from the platform's own storage; other addresses must
   * be public ones. Throws an `InputFileError`.
   */
  async fetch({ files, owner }: FilesOfInput, body: Buffer, signal: AbortSignal): Promise<Buffer> {
    if (files.length === 0) return body
    const input = JSON.parse(body.toString()) as Record<string, unknown>
    for (const { field, url } of files) {
      const value = input[field]
      if (typeof value !== 'string' || DATA_URL.test(value)) continue
      const bytes =
        url === undefined
          ? await fetchPublic(this.#sources, { field, url: value, owner }, signal)
          : await fetchUpload(field, url, signal)
      input[field] = BYTES_URL + bytes.toString('base64')
    }
    return Buffer.from(JSON.stringify(input))
  }
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
    if (!(err instanceof SendError || err instanceof FileTooLargeError)) throw err
    const retryable = err instanceof SendError && PASSING.has(err.reason)
    const message = `${field} could not be fetched: ${err.message}. An upload expires after an hour; use a public HTTPS address or a base64 data: URL for other files.`
    throw new InputFileError(message, { retryable, cause: err })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
