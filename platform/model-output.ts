import type { Modality } from '../schemas/nodes/lease.ts'

/** The content type of a response that consists of steps and files (node-runtime/servers/README.md). */
export const OUTPUT_TYPE = 'application/x-hearth-output'

const MAX_LINE = 1024 * 1024
const MAX_FILE = 4 * 1024 ** 3
const MAX_FILES = 100
const PLAIN_NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$/
const LINE_END = 10

/** A file of a response, as its line describes it. */
export interface OutputFile {
  filename: string
  content_type: string
  modality: Modality
  size_bytes: number
}

/** A complete response; `F` is the result of storing each file. */
export interface Output<F> {
  files: F[]
  metadata: Record<string, unknown>
}

type OutputEvent =
  | { event: 'step'; step: number; total: number }
  | ({ event: 'file' } & OutputFile)
  | { event: 'result'; metadata: Record<string, unknown> }
  | { event: 'error'; message: string; retryable: boolean }

/** The model server could not finish a response that it had begun. */
export class OutputError extends Error {
  override readonly name = 'OutputError'
  readonly retryable: boolean

  constructor(message: string, { retryable }: { retryable: boolean }) {
    super(message)
    this.retryable = retryable
  }
}

export interface OutputReader<F> {
  /** Consumes the bytes of a file; it must read all of them. */
  take: (file: OutputFile, bytes: AsyncIterable<Buffer>) => Promise<F>
  onStep?: ((step: number, total: number) => void) | undefined
}

/**
 * Reads a response of steps and files: lines of JSON, where each line about a file is followed by the file's bytes.
 * Throws an `OutputError` for a response that reports an error or is cut off.
 */
export async function readOutput<F>(
  body: AsyncIterable<Buffer>,
  { take, onStep }: OutputReader<F>,
): Promise<Output<F>> {
  const bytes = new ByteReader(body)
  const names = new Set<string>()
  const files: F[] = []
  for (;;) {
    const text = await bytes.line()
    if (text === undefined)
      throw new OutputError('the connection to the model server broke off', { retryable: true })
    const line = JSON.parse(text) as OutputEvent
    if (line.event === 'step') onStep?.(line.step, line.total)
    else if (line.event === 'error') throw new OutputError(line.message, line)
    else if (line.event === 'result') return { files, metadata: line.metadata }
    else {
      checkFile(line, names)
      files.push(await take(line, bytes.take(line.size_bytes)))
      names.add(line.filename)
    }
  }
}

function checkFile({ filename, size_bytes }: OutputFile, names: ReadonlySet<string>): void {
  const isFine = PLAIN_NAME.test(filename) && !names.has(filename)
  if (isFine && size_bytes <= MAX_FILE && names.size < MAX_FILES) return
  throw new OutputError('the model server returned too many files, too large files or invalid file names', {
    retryable: false,
  })
}

/** Splits a stream into lines and runs of bytes. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(body: AsyncIterable<Buffer>) {
    this.#chunks = body[Symbol.asyncIterator]()
  }

  /** Returns the next line; undefined at the end of the stream, even within a line. */
  async line(): Promise<string | undefined> {
    for (;;) {
      const end = this.#rest.indexOf(LINE_END)
      if (end >= 0) {
        const text = this.#rest.toString('utf8', 0, end)
        this.#rest = this.#rest.subarray(end + 1)
        return text
      }
      if (this.#rest.length > MAX_LINE || !(await this.#more())) return undefined
    }
  }

  /** Yields exactly `count` bytes. */
  async *take(count: number): AsyncGenerator<Buffer> {
    for (let left = count; left > 0;) {
      if (this.#rest.length === 0 && !(await this.#more()))
        throw new OutputError('the connection to the model server broke off', { retryable: true })
      const chunk = this.#rest.subarray(0, left)
      this.#rest = this.#rest.subarray(chunk.length)
      left -= chunk.length
      yield chunk
    }
  }

  async #more(): Promise<boolean> {
    const { done, value } = await this.#chunks.next()
    if (done) return false
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value])
    return true
  }
}
