interface SizedFile {
  path: string
  sizeBytes: number
}

export type WeightFormat = 'safetensors' | 'gguf' | 'onnx'

/** The files of a repository that a node downloads to serve it. */
export interface HubWeights {
  format: WeightFormat
  files: readonly string[]
  /** Missing files that make the weights incomplete. */
  missing: readonly string[]
}

/** Split weights are named `<stem>-00001-of-00003.<format>`, with all parts in one folder. */
const PART = /^(.*)-(\d{5})-of-(\d{5})\.(gguf|safetensors)$/
const SHARD_INDEX = 'model.safetensors.index.json'
const WHOLE_SAFETENSORS = 'model.safetensors'

const isModelWeights = (path: string): boolean =>
  /^[^/]+\.safetensors$/.test(path) && !path.startsWith('adapter_')

/** Projectors and importance matrices are also GGUF files, but not models. */
export const isGgufModel = (path: string): boolean =>
  path.endsWith('.gguf') && !/(?:^|\/)(?:mmproj|imatrix)[^/]*$|[-_.](?:mmproj|imatrix)\.gguf$/i.test(path)

/** The other files that a server reads; everything else in a repository is left out. */
const SIDE_FILES =
  /^(?:config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|preprocessor_config|model\.safetensors\.index)\.json$|^(?:merges\.txt|vocab\.txt|tokenizer\.model|spiece\.model|chat_template\.(?:jinja|json))$/

/** Additional files that specialist servers read, and an ONNX file with its external tensors. */
const SPECIALIST_FILES =
  /^(?:modules|sentence_bert_config|config_sentence_transformers|processor_config)\.json$|^1_Pooling\/config\.json$|^(?:sentencepiece\.bpe|spm)\.model$|^(?:source|target)\.spm$/
const ONNX = 'onnx/model.onnx'
const ONNX_FILES = /^onnx\/model\.onnx(?:_data)?$/

/**
 * Returns the safetensors to read. That is the whole file if there is one, otherwise the shards of the index, or the
 * files named like parts of a split. Other layouts of the same weights (`consolidated.safetensors`) are ignored.
 */
function readWeights(paths: readonly string[], shards: readonly string[] | null): string[] {
  const weights = paths.filter(isModelWeights)
  if (weights.includes(WHOLE_SAFETENSORS)) return [WHOLE_SAFETENSORS]
  if (shards !== null) return weights.filter((path) => shards.includes(path))
  const parts = weights.filter((path) => PART.test(path))
  const usual = parts.filter((path) => path.startsWith('model-'))
  return [usual, parts, weights].find(({ length }) => length > 0) ?? []
}

/**
 * Returns the files for a run that starts from a repository: trainable weights and the side files that training reads.
 */
export function trainingFiles<F extends SizedFile>(
  files: readonly F[],
  shards: readonly string[] | null = null,
): F[] {
  const weights = readWeights(
    files.map(({ path }) => path),
    shards,
  )
  return files.filter(
    ({ path }) => weights.includes(path) || SIDE_FILES.test(path) || SPECIALIST_FILES.test(path),
  )
}

const ADAPTER_FILES = /^(?:adapter\/)?adapter_(?:config\.json|model\.safetensors)$/

/** Returns the files of a LoRA adapter repository that a merge reads. */
export const adapterFiles = <F extends SizedFile>(files: readonly F[]): F[] =>
  files.filter(({ path }) => ADAPTER_FILES.test(path))

/** Returns the index of a repository's safetensors, unless they are in a single file. */
export const shardIndexOf = <F extends { path: string }>(files: readonly F[]): F | undefined =>
  files.some(({ path }) => path === WHOLE_SAFETENSORS)
    ? undefined
    : files.find(({ path }) => path === SHARD_INDEX)

/** Returns the shards listed in an index; undefined when it isn't an index. */
export function shardsOf(index: unknown): readonly string[] | undefined {
  if (typeof index !== 'object' || index === null || !('weight_map' in index)) return undefined
  const map = index.weight_map
  if (typeof map !== 'object' || map === null) return undefined
  const names = Object.values(map as Record<string, unknown>)
  return names.every((name) => typeof name === 'string') ? [...new Set(names)] : undefined
}

/**
 * Chooses the weights of a repository: safetensors if there are any, otherwise one GGUF quantization with all its
 * parts. `shards` come from the index; null when the index has not been read.
 */
export function chooseWeights(
  files: readonly SizedFile[],
  shards: readonly string[] | null,
): HubWeights | undefined {
  const paths = files.map(({ path }) => path)
  if (paths.some(isModelWeights)) {
    return {
      format: 'safetensors',
      files: trainingFiles(files, shards).map(({ path }) => path),
      missing: missingShards(paths, shards),
    }
  }
  const sets = partSets(paths.filter(isGgufModel))
  const whole = sets.filter(({ missing }) => missing.length === 0)
  const chosen = middleQuantization(whole) ?? middleQuantization(sets)
  return chosen && { format: 'gguf', files: chosen.present, missing: chosen.missing }
}

/** Chooses the weights of a text-generating specialist: safetensors and the tokenizer files. */
export function chooseWriterWeights(
  files: readonly SizedFile[],
  shards: readonly string[] | null,
): HubWeights | undefined {
  const chosen = chooseWeights(files, shards)
  return chosen?.format === 'safetensors' ? chosen : undefined
}

/**
 * Chooses the weights of a text encoder: safetensors, an ONNX file from the repository, or both, because the server
 * compares one with the other.
 */
export function chooseEncoderWeights(
  files: readonly SizedFile[],
  shards: readonly string[] | null,
): HubWeights | undefined {
  const paths = files.map(({ path }) => path)
  const more = paths.filter((path) => ONNX_FILES.test(path))
  const trained = trainingFiles(files, shards).map(({ path }) => path)
  if (paths.some(isModelWeights))
    return { format: 'safetensors', files: [...trained, ...more], missing: missingShards(paths, shards) }
  if (paths.includes(ONNX)) return { format: 'onnx', files: [...trained, ...more], missing: [] }
  return chooseWeights(files, shards)
}

function missingShards(paths: readonly string[], shards: readonly string[] | null): string[] {
  if (paths.includes(WHOLE_SAFETENSORS)) return []
  if (shards !== null) return shards.filter((shard) => !paths.includes(shard))
  const split = partSets(readWeights(paths, null)).filter(({ isSplit }) => isSplit)
  const missing = split.flatMap((set) => set.missing)
  if (paths.includes(SHARD_INDEX)) return missing
  // A split without an index has an unknown number of shards. Without a split, the single file is required.
  return split.length > 0 ? [...missing, SHARD_INDEX] : [WHOLE_SAFETENSORS]
}

interface PartSet {
  isSplit: boolean
  present: string[]
  missing: string[]
}

/** The maximum number of parts whose presence we check, because a file name may claim any number. */
const MAX_PARTS = 1_000

/** Groups weights by model: a single file, or all parts of one split. */
function partSets(paths: readonly string[]): PartSet[] {
  const sets = new Map<string, PartSet>()
  for (const path of paths) {
    const [, stem = '', , count = '', format = ''] = PART.exec(path) ?? []
    const isSplit = count !== ''
    const key = isSplit ? `${stem}-of-${count}.${format}` : path
    const set = sets.get(key)
    if (set) set.present.push(path)
    else {
      const names = isSplit ? partNames({ stem, count, format }) : []
      sets.set(key, { isSplit, present: [path], missing: names.filter((name) => !paths.includes(name)) })
    }
  }
  return [...sets.values()]
}

const partNames = ({ stem, count, format }: { stem: string; count: string; format: string }): string[] =>
  Array.from(
    { length: Math.min(Number(count), MAX_PARTS) },
    (_, part) => `${stem}-${String(part + 1).padStart(5, '0')}-of-${count}.${format}`,
  )

/** Quantizations in order of preference: the medium one first, which is the most popular. */
const GGUF_ORDER = [/q4_k_m/i, /q5_k_m/i, /q4_0/i, /q8_0/i, /./]

const middleQuantization = (sets: readonly PartSet[]): PartSet | undefined =>
  GGUF_ORDER.map((wanted) => sets.find(({ present }) => present.some((path) => wanted.test(path)))).find(
    (set) => set !== undefined,
  )
