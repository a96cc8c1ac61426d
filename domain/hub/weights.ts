interface SizedFile {
  path: string
  sizeBytes: number
}

export type WeightFormat = 'safetensors' | 'gguf'

/** What of a repository is fetched to serve it. */
export interface HubWeights {
  format: WeightFormat
  files: readonly string[]
  /** Files without which the weights are not whole. */
  missing: readonly string[]
}

/** Weights in parts are named `<stem>-00001-of-00003.<format>`, all in one folder. */
const PART = /^(.*)-(\d{5})-of-(\d{5})\.(gguf|safetensors)$/
const SHARD_INDEX = 'model.safetensors.index.json'
const WHOLE_SAFETENSORS = 'model.safetensors'

const isModelWeights = (path: string): boolean =>
  /^[^/]+\.safetensors$/.test(path) && !path.startsWith('adapter_')

/** Projectors and importance matrices lie beside language models in the same format. */
const isGgufModel = (path: string): boolean =>
  path.endsWith('.gguf') && !/(?:^|\/)(?:mmproj|imatrix)[^/]*$|[-_.](?:mmproj|imatrix)\.gguf$/i.test(path)

/** Beside the weights: what a server reads, and nothing else of what lies in a repository. */
const SIDE_FILES =
  /^(?:config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|preprocessor_config|model\.safetensors\.index)\.json$|^(?:merges\.txt|vocab\.txt|tokenizer\.model|spiece\.model|chat_template\.(?:jinja|json))$/

/**
 * The safetensors that are read: the whole file where there is one, else the shards of the index, or those whose names tell
 * of a split. Other layouts of the same weights (`consolidated.safetensors`) lie beside them.
 */
function readWeights(paths: readonly string[], shards: readonly string[] | null): string[] {
  const weights = paths.filter(isModelWeights)
  if (weights.includes(WHOLE_SAFETENSORS)) return [WHOLE_SAFETENSORS]
  if (shards !== null) return weights.filter((path) => shards.includes(path))
  const parts = weights.filter((path) => PART.test(path))
  const usual = parts.filter((path) => path.startsWith('model-'))
  return [usual, parts, weights].find(({ length }) => length > 0) ?? []
}

/** What a run that starts from a repository needs of it: weights that can be trained on, and what is read beside them. */
export function trainingFiles<F extends SizedFile>(
  files: readonly F[],
  shards: readonly string[] | null = null,
): F[] {
  const weights = readWeights(
    files.map(({ path }) => path),
    shards,
  )
  return files.filter(({ path }) => weights.includes(path) || SIDE_FILES.test(path))
}

const ADAPTER_FILES = /^(?:adapter\/)?adapter_(?:config\.json|model\.safetensors)$/

/** What a merge needs of a repository that holds a LoRA adapter. */
export const adapterFiles = <F extends SizedFile>(files: readonly F[]): F[] =>
  files.filter(({ path }) => ADAPTER_FILES.test(path))

/** The file that lists the shards of a repository's safetensors, where its weights are read by that list. */
export const shardIndexOf = <F extends { path: string }>(files: readonly F[]): F | undefined =>
  files.some(({ path }) => path === WHOLE_SAFETENSORS)
    ? undefined
    : files.find(({ path }) => path === SHARD_INDEX)

/** The shards that an index names; undefined when it is none. */
export function shardsOf(index: unknown): readonly string[] | undefined {
  if (typeof index !== 'object' || index === null || !('weight_map' in index)) return undefined
  const map = index.weight_map
  if (typeof map !== 'object' || map === null) return undefined
  const names = Object.values(map as Record<string, unknown>)
  return names.every((name) => typeof name === 'string') ? [...new Set(names)] : undefined
}

/**
 * Chooses the weights of a repository: safetensors where there are any, else one quantization of its GGUF with all its
 * parts. `shards` are those that its index names; null where the index has not been read.
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

function missingShards(paths: readonly string[], shards: readonly string[] | null): string[] {
  if (paths.includes(WHOLE_SAFETENSORS)) return []
  if (shards !== null) return shards.filter((shard) => !paths.includes(shard))
  const split = partSets(readWeights(paths, null)).filter(({ isSplit }) => isSplit)
  const missing = split.flatMap((set) => set.missing)
  if (paths.includes(SHARD_INDEX)) return missing
  // Without an index the weights of a split are not found, and without a split there has to be the one file.
  return split.length > 0 ? [...missing, SHARD_INDEX] : [WHOLE_SAFETENSORS]
}

interface PartSet {
  isSplit: boolean
  present: string[]
  missing: string[]
}

/** The most parts whose absence is looked for: a name may claim any number. */
const MOST_PARTS = 1_000

/** Weights by what belongs together: a file of its own, or all parts of one split. */
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
    { length: Math.min(Number(count), MOST_PARTS) },
    (_, part) => `${stem}-${String(part + 1).padStart(5, '0')}-of-${count}.${format}`,
  )

/** Of several quantizations the middle one, as most people choose. */
const GGUF_ORDER = [/q4_k_m/i, /q5_k_m/i, /q4_0/i, /q8_0/i, /./]

const middleQuantization = (sets: readonly PartSet[]): PartSet | undefined =>
  GGUF_ORDER.map((wanted) => sets.find(({ present }) => present.some((path) => wanted.test(path)))).find(
    (set) => set !== undefined,
  )
