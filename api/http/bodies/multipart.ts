import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import busboy from 'busboy'
import type { Static, TSchema } from 'typebox'
import { ApiError, invalid, invalidFor, type Issue } from '../../../domain/errors.ts'
import { type Check, textCheck } from '../validate.ts'
import { ClientGoneError, type FileLimit, fileTooLarge } from './body.ts'

const MAX_FIELD_BYTES = 64 * 1024
// One byte more, because the parser fails on reaching a limit but a field of exactly the documented size is valid.
const LIMITS = { fields: 32, fieldSize: MAX_FIELD_BYTES + 1, parts: 64, headerPairs: 64 }

/** A form's file, as it arrives. */
interface UploadedFile {
  /** The file name without any folder; empty when the client sent none. */
  filename: string
  contentType: string
  /** Fails with `payload_too_large` beyond the limit; also fails if the client disconnects. */
  stream: Readable
}

export interface MultipartForm<F extends TSchema, T> {
  /** The name of the one file that the form must have. */
  file: string
  limit: FileLimit
  /** The other fields, coerced from text. A field whose name ends in `[]` may repeat and becomes a list. */
  fields: F
  /** Consumes the file while it arrives; fields may follow it. */
  consume: (file: UploadedFile) => Promise<T>
  /** Undoes `consume` if a later part of the form is invalid. */
  discard?: (taken: T) => Promise<void>
}

type Fields = Record<string, string | string[]>

const checks = new WeakMap<TSchema, Check>()

/** Reads a form with one file, with at most a few chunks of it in memory. */
export async function readMultipart<F extends TSchema, T>(
  req: IncomingMessage,
  form: MultipartForm<F, T>,
): Promise<{ fields: Static<F>; file: T }> {
  const parts = new FormParts(req, form)
  const taken = await parts.read()
  try {
    return { fields: checkFields(form.fields, parts.fields), file: taken }
  } catch (err) {
    await form.discard?.(taken)
    throw err
  }
}

function checkFields<F extends TSchema>(schema: F, fields: Fields): Static<F> {
  let check = checks.get(schema)
  if (!check) checks.set(schema, (check = textCheck('body', schema)))
  return check(fields) as Static<F>
}

class FormParts<T> {
  readonly fields: Fields = Object.create(null) as Fields
  readonly #req: IncomingMessage
  readonly #form: MultipartForm<TSchema, T>
  readonly #end = Promise.withResolvers<void>()
  #taking: Promise<T> | undefined
  #stream: Readable | undefined

  constructor(req: IncomingMessage, form: MultipartForm<TSchema, T>) {
    this.#req = req
    this.#form = form
  }

  /** Returns the result of `consume` once the whole form has been read. */
  async read(): Promise<T> {
    const parser = openParser(this.#req, this.#form.limit)
    const fail = (err: Error): void => this.#end.reject(err)
    const onGone = (): void => {
      if (!this.#req.complete) fail(new ClientGoneError('the client disconnected in the middle of its form'))
    }
    parser
      .on('field', (name, value, info) => this.#field(name, value, info))
      .on('file', (name, stream, info) => this.#file(name, stream, info))
      .on('error', (cause) => fail(malformed(cause)))
      .on('close', () => this.#end.resolve())
    for (const limit of ['fieldsLimit', 'partsLimit'] as const) {
      parser.on(limit, () => fail(invalid(['body'], 'the form has too many parts', 'too_long')))
    }
    this.#req.on('close', onGone).pipe(parser)

    try {
      await this.#end.promise
      if (!this.#taking) throw invalidFor([fileMissing(this.#form.file), ...this.#faultsOfFields()])
      return await this.#taking
    } catch (err) {
      await this.#abandon(err as Error)
      throw err
    } finally {
      this.#req.off('close', onGone).unpipe(parser)
      parser.on('error', () => {}).destroy()
    }
  }

  #faultsOfFields(): readonly Issue[] {
    try {
      checkFields(this.#form.fields, this.fields)
      return []
    } catch (err) {
      return err instanceof ApiError ? ((err.details['issues'] as readonly Issue[] | undefined) ?? []) : []
    }
  }

  #field(name: string, value: string, { valueTruncated }: busboy.FieldInfo): void {
    if (value.includes('\u0000'))
      this.#end.reject(invalid(['body', name], 'must not contain a NUL character', 'text'))
    if (valueTruncated) this.#end.reject(invalid(['body', name], 'is longer than 64 KiB', 'too_long'))
    const known = this.fields[name]
    if (Array.isArray(known)) known.push(value)
    else if (name.endsWith('[]')) this.fields[name] = [value]
    else if (known === undefined) this.fields[name] = value
    else this.#end.reject(invalid(['body', name], 'stands twice'))
  }

  #file(name: string, stream: Readable, { filename = '', mimeType }: busboy.FileInfo): void {
    const { file, limit, consume } = this.#form
    if (name !== file || this.#taking) {
      // The stream has no reader, but the parser still destroys it with an error if the form is abandoned.
      stream.on('error', () => {}).resume()
      this.#end.reject(
        invalid(['body', name], `the form accepts only one file, named ${file}`, 'extra_forbidden'),
      )
      return
    }
    this.#stream = stream
    stream.on('limit', () => stream.destroy(fileTooLarge(limit)))
    // Register this listener before the reader's: a parser error is the client's fault.
    stream.on('error', (err) => {
      // If the reader's disk or connection fails, it destroys the stream with that error and rejects with it.
      if ('errno' in err) return
      this.#end.reject(err instanceof ApiError ? err : malformed(err))
    })
    this.#taking = consume({ filename, contentType: mimeType, stream })
    this.#taking.catch((err: unknown) => this.#end.reject(err))
  }

  /** Stops the file's reader, or undoes its work if it has already finished. */
  async #abandon(err: Error): Promise<void> {
    this.#stream?.destroy(err)
    const taken = await this.#taking?.then(
      (value) => ({ value }),
      () => undefined,
    )
    if (taken) await this.#form.discard?.(taken.value)
  }
}

const fileMissing = (file: string): Issue => ({ loc: ['body', file], msg: 'Field required', type: 'missing' })

function openParser(req: IncomingMessage, { maxBytes }: FileLimit): busboy.Busboy {
  try {
    return busboy({
      headers: req.headers,
      defParamCharset: 'utf8',
      limits: { ...LIMITS, fileSize: maxBytes + 1 },
    })
  } catch (cause) {
    throw malformed(cause)
  }
}

const malformed = (cause: unknown): ApiError =>
  new ApiError(
    'bad_request',
    `the form cannot be read: ${cause instanceof Error ? cause.message : 'malformed'}`,
    {
      cause,
    },
  )
