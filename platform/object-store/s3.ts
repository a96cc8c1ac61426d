import { randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import {
  CopyObjectCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
  paginateListObjectsV2,
} from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { ApiError, storageFull } from '../../domain/errors.ts'
import {
  assertKey,
  assertPrefix,
  attachment,
  meter,
  type ByteRange,
  type ObjectInfo,
  type ObjectStore,
} from './store.ts'

export interface S3ObjectStoreOptions {
  bucket: string
  region: string
  /** Absent for AWS itself. */
  endpoint?: string
  /** The address that clients and nodes reach, when it differs from `endpoint`. */
  publicEndpoint?: string
  accessKeyId: string
  secretAccessKey: string
  forcePathStyle: boolean
}

/** At most two parts of this size are in memory. S3 accepts 10,000 parts, so an object can be up to 80 GB. */
const PART_BYTES = 8 * 1024 * 1024
const PARTS_AT_ONCE = 2
const OCTETS = 'application/octet-stream'
/** When signed into an upload, this header makes S3 reject other bytes and report the digest from then on. */
const CHECKSUM = 'x-amz-checksum-sha256'

interface Bucket {
  client: S3Client
  /** Only signs URLs; never connects. */
  signer: S3Client
  name: string
}

/** Stores objects in an existing S3 bucket. */
export function openS3ObjectStore(options: S3ObjectStoreOptions): ObjectStore & Disposable {
  const client = connect(options, options.endpoint)
  const signer = options.publicEndpoint ? connect(options, options.publicEndpoint) : client
  const bucket: Bucket = { client, signer, name: options.bucket }
  const address = (key: string) => ({ Bucket: options.bucket, Key: assertKey(key) })

  return {
    putBytes: PART_BYTES * PARTS_AT_ONCE,
    put: (key, body, putOptions) => put(bucket, assertKey(key), body, putOptions).catch(fullBucket),
    room: async () => undefined,
    get: (key, getOptions) => get(bucket, assertKey(key), getOptions),
    head: (key) => head(bucket, assertKey(key)),
    list: (prefix) => list(bucket, prefix === undefined ? '' : assertPrefix(prefix)),
    async move(from, to) {
      if (await head(bucket, assertKey(from))) {
        const source = `${options.bucket}/${from.split('/').map(encodeURIComponent).join('/')}`
        await client
          .send(new CopyObjectCommand({ ...address(to), CopySource: source, ChecksumAlgorithm: 'SHA256' }))
          .catch(fullBucket)
        await client.send(new DeleteObjectCommand(address(from)))
      } else if (!(await head(bucket, assertKey(to)))) throw missing()
    },
    async delete(key) {
      await client.send(new DeleteObjectCommand(address(key)))
    },
    deletePrefix: (prefix) => deletePrefix(bucket, assertPrefix(prefix)),
    signGet(key, { expiresInS, filename }) {
      const disposition = filename && { ResponseContentDisposition: attachment(filename) }
      return sign(signer, new GetObjectCommand({ ...address(key), ...disposition }), expiresInS)
    },
    async signPut(key, { expiresInS, contentType, sha256, sizeBytes }) {
      const ChecksumSHA256 = sha256 && Buffer.from(sha256, 'hex').toString('base64')
      const checksum = ChecksumSHA256 && { ChecksumSHA256 }
      const command = new PutObjectCommand({
        ...address(key),
        ContentType: contentType,
        ...checksum,
        ...(sizeBytes !== undefined && { ContentLength: sizeBytes }),
      })
      const headers = { 'content-type': contentType, ...(ChecksumSHA256 && { [CHECKSUM]: ChecksumSHA256 }) }
      return { ...(await sign(signer, command, expiresInS)), headers }
    },
    async localCopy(key, { directory, signal }) {
      await mkdir(directory, { recursive: true })
      const path = join(directory, randomUUID())
      const copy = { path, [Symbol.asyncDispose]: () => rm(path, { force: true }) }
      try {
        const { body } = await get(bucket, assertKey(key), signal ? { signal } : {})
        await pipeline(body, createWriteStream(path), signal ? { signal } : {})
      } catch (err) {
        await copy[Symbol.asyncDispose]()
        throw err
      }
      return copy
    },
    [Symbol.dispose]() {
      client.destroy()
      signer.destroy()
    },
  }
}

function connect(options: S3ObjectStoreOptions, endpoint: string | undefined): S3Client {
  const { region, forcePathStyle, accessKeyId, secretAccessKey } = options
  return new S3Client({
    region,
    forcePathStyle,
    credentials: { accessKeyId, secretAccessKey },
    ...(endpoint && { endpoint }),
    // The newer default checksums would become part of signed URLs, but the bytes aren't known when we sign.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  })
}

const put = async (
  { client, name }: Bucket,
  key: string,
  body: Readable | Uint8Array,
  { contentType, signal, maxBytes, sha256 }: Parameters<ObjectStore['put']>[2],
) => {
  const { through, measured } = meter({
    ...(maxBytes !== undefined && { maxBytes }),
    ...(sha256 !== undefined && { sha256 }),
  })
  const source = body instanceof Readable ? body : Readable.from([body], { objectMode: false })
  const upload = new Upload({
    client,
    params: { Bucket: name, Key: key, Body: through, ContentType: contentType },
    partSize: PART_BYTES,
    queueSize: PARTS_AT_ONCE,
  })
  const abort = () => void upload.abort()
  signal?.addEventListener('abort', abort, { once: true })
  try {
    // When the source fails, `through` fails too; the upload reads from it and aborts the parts sent so far.
    await Promise.all([upload.done(), pipeline(source, through, signal ? { signal } : {})])
  } finally {
    signal?.removeEventListener('abort', abort)
  }
  return measured
}

async function get(
  { client, name }: Bucket,
  key: string,
  { range, signal }: Parameters<ObjectStore['get']>[1] = {},
) {
  try {
    const found = await client.send(
      new GetObjectCommand({ Bucket: name, Key: key, ...(range && { Range: rangeHeader(range) }) }),
      signal ? { abortSignal: signal } : {},
    )
    if (!(found.Body instanceof Readable)) throw new Error('the S3 client returned no stream')
    const size = Number(found.ContentRange?.split('/')[1] ?? found.ContentLength ?? 0)
    return { info: describe(key, size, found), body: found.Body }
  } catch (err) {
    if (statusOf(err) === 404) throw missing()
    if (statusOf(err) === 416) {
      throw new ApiError('range_not_satisfiable', 'the range starts beyond the end of the object')
    }
    throw err
  }
}

async function head({ client, name }: Bucket, key: string): Promise<ObjectInfo | undefined> {
  try {
    const found = await client.send(
      new HeadObjectCommand({ Bucket: name, Key: key, ChecksumMode: 'ENABLED' }),
    )
    const { ChecksumSHA256: checksum, ChecksumType: type } = found
    // A multipart object's checksum is computed from the digests of its parts and ends with their number.
    const isWhole = checksum !== undefined && type !== 'COMPOSITE' && !checksum.includes('-')
    const sha256 = isWhole ? Buffer.from(checksum, 'base64').toString('hex') : undefined
    return { ...describe(key, found.ContentLength ?? 0, found), ...(sha256 && { sha256 }) }
  } catch (err) {
    if (statusOf(err) === 404) return undefined
    throw err
  }
}

async function* list({ client, name }: Bucket, prefix: string): AsyncIterable<ObjectInfo> {
  for await (const page of paginateListObjectsV2({ client }, { Bucket: name, Prefix: prefix })) {
    for (const object of page.Contents ?? []) {
      // Some servers list folders as empty objects.
      if (!object.Key || object.Key.endsWith('/')) continue
      yield describe(object.Key, object.Size ?? 0, object)
    }
  }
}

async function deletePrefix({ client, name }: Bucket, prefix: string): Promise<void> {
  for await (const page of paginateListObjectsV2({ client }, { Bucket: name, Prefix: prefix })) {
    const keys = (page.Contents ?? []).flatMap(({ Key }) => (Key ? [{ Key }] : []))
    if (keys.length === 0) continue
    const answer = await client.send(
      new DeleteObjectsCommand({ Bucket: name, Delete: { Objects: keys, Quiet: true } }),
    )
    const failed = answer.Errors?.[0]
    if (failed) throw new Error(`could not delete ${failed.Key}: ${failed.Message}`)
  }
}

async function sign(signer: S3Client, command: GetObjectCommand | PutObjectCommand, expiresInS: number) {
  const signingDate = new Date()
  const options = {
    expiresIn: expiresInS,
    signingDate,
    signableHeaders: new Set(['content-type', 'content-length', 'host', CHECKSUM]),
    unhoistableHeaders: new Set([CHECKSUM]),
  }
  const url =
    command instanceof GetObjectCommand
      ? await getSignedUrl(signer, command, options)
      : await getSignedUrl(signer, command, options)
  return { url, expiresAt: new Date(signingDate.getTime() + expiresInS * 1000) }
}

const describe = (
  key: string,
  sizeBytes: number,
  found: { ContentType?: string | undefined; LastModified?: Date | undefined; ETag?: string | undefined },
): ObjectInfo => ({
  key,
  sizeBytes,
  contentType: found.ContentType ?? OCTETS,
  lastModified: found.LastModified ?? new Date(0),
  etag: found.ETag ?? '',
})

const missing = () => new ApiError('not_found', 'there is no object with this name')

const rangeHeader = ({ start, end }: ByteRange) => `bytes=${start}-${end ?? ''}`

/** The error names of S3 servers, such as MinIO and Ceph, for a bucket or disk without free space. */
const FULL_NAMES =
  /^(?:XMinioStorageFull|XMinioAdminBucketQuotaExceeded|QuotaExceeded|InsufficientStorage|StorageFull)$/

/** Rethrows the error of a write; turns a full store into an error that callers may see. */
function fullBucket(err: unknown): never {
  const isFull = err instanceof S3ServiceException && (statusOf(err) === 507 || FULL_NAMES.test(err.name))
  throw isFull ? storageFull('object store', err) : err
}

const statusOf = (err: unknown): number | undefined =>
  err instanceof S3ServiceException ? err.$metadata.httpStatusCode : undefined
