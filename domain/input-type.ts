import { INPUT_TYPES } from '../schemas/inference-task.ts'

type InputType = (typeof INPUT_TYPES)[number]

const KNOWN: ReadonlySet<string> = new Set(INPUT_TYPES)
/** The type that programs send for files whose type they don't know. */
const UNKNOWN_TYPE = 'application/octet-stream'
const BY_EXTENSION: ReadonlyMap<string, InputType> = new Map(
  Object.entries({
    png: 'image/png',
    jpg: 'image/jpeg',
    jpeg: 'image/jpeg',
    webp: 'image/webp',
    wav: 'audio/wav',
    mp3: 'audio/mpeg',
    m4a: 'audio/mp4',
    ogg: 'audio/ogg',
    flac: 'audio/flac',
    mp4: 'video/mp4',
    glb: 'model/gltf-binary',
    pdf: 'application/pdf',
    csv: 'text/csv',
    json: 'application/json',
    jsonl: 'application/jsonl',
    parquet: 'application/vnd.apache.parquet',
  } as const),
)

/** Alternative names of these types. */
const ALIASES: ReadonlyMap<string, InputType> = new Map([
  ['audio/x-wav', 'audio/wav'],
  ['audio/wave', 'audio/wav'],
  ['audio/x-flac', 'audio/flac'],
  ['audio/x-m4a', 'audio/mp4'],
])

/**
 * Returns the type of an uploaded input: the one it was sent with, or the one for its extension if the client sends
 * none. Curl sends none for most files. Undefined for an unsupported type.
 */
export function inputTypeOf(contentType: string, filename: string): InputType | undefined {
  if (KNOWN.has(contentType)) return contentType as InputType
  if (contentType !== UNKNOWN_TYPE) return ALIASES.get(contentType)
  return BY_EXTENSION.get(/\.([A-Za-z0-9]+)$/.exec(filename)?.[1]?.toLowerCase() ?? '')
}
