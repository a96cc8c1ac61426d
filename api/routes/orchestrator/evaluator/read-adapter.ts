import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { faultOfAdapter, MAX_ADAPTER_BYTES } from '../../../../domain/cohorts/adapter.ts'
import { ApiError, invalid } from '../../../../domain/errors.ts'
import type { Adapter } from '../../../../schemas/cohorts/evaluator.ts'
import type { Services } from '../../../services.ts'

/** The folder for evaluators' files in the platform's object store: `s3://<bucket>/evaluator/...`. */
const FOLDER = 'evaluator/'
/** The bucket name of an object store in a local directory. */
const LOCAL_BUCKET = 'hearth'
const DATA_URL = /^data:[^,;]{0,100};base64,/

const refused = (field: keyof Adapter, message: string): ApiError =>
  invalid(['body', 'adapter', field], message)

/** Reads an adapter's file and checks it; throws a 422 that names the invalid field. */
export async function readAdapter(
  services: Pick<Services, 'objects' | 'config'>,
  adapter: Adapter,
): Promise<Buffer> {
  if (adapter.size_bytes > MAX_ADAPTER_BYTES) {
    throw refused('size_bytes', `must be at most ${MAX_ADAPTER_BYTES}`)
  }
  const bytes = await bytesOf(services, adapter.uri)
  if (bytes.length !== adapter.size_bytes) throw refused('size_bytes', `the file has ${bytes.length} bytes`)
  if (createHash('sha256').update(bytes).digest('hex') !== adapter.sha256) {
    throw refused('sha256', 'the file has a different digest')
  }
  const fault = faultOfAdapter(bytes, adapter)
  if (fault !== undefined) throw refused('uri', `the file ${fault}`)
  return bytes
}

async function bytesOf(
  { objects, config }: Pick<Services, 'objects' | 'config'>,
  uri: string,
): Promise<Buffer> {
  const [head] = DATA_URL.exec(uri) ?? []
  if (head !== undefined) return Buffer.from(uri.slice(head.length), 'base64')

  const root = `s3://${config.S3_BUCKET || LOCAL_BUCKET}/`
  if (!uri.startsWith(root + FOLDER)) {
    throw refused('uri', `must be a base64 data: URL, or a URL under ${root}${FOLDER}`)
  }
  try {
    const { info, body } = await objects.get(uri.slice(root.length))
    if (info.sizeBytes <= MAX_ADAPTER_BYTES) return await buffer(body)
    body.destroy()
  } catch (err) {
    if (!(err instanceof ApiError && err.code === 'not_found')) throw err
    throw refused('uri', 'there is no such file')
  }
  throw refused('uri', `the file is larger than ${MAX_ADAPTER_BYTES} bytes`)
}
