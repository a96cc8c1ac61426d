/** Tasks that text encoders serve, with one output per text. */
const ENCODER_TASKS = ['embeddings', 'rerank', 'moderation', 'classification'] as const
/** Tasks of models that generate text. */
const WRITER_TASKS = ['translation', 'ocr', 'stt'] as const
type WriterTask = (typeof WRITER_TASKS)[number]
export type SpecialistTask = (typeof ENCODER_TASKS)[number] | WriterTask

export const isEncoderTask = (task: string): boolean => (ENCODER_TASKS as readonly string[]).includes(task)

export const isWriterTask = (task: string): task is WriterTask =>
  (WRITER_TASKS as readonly string[]).includes(task)

export const isSpecialistTask = (task: string): task is SpecialistTask =>
  isEncoderTask(task) || isWriterTask(task)

/** The text-generating model families that their servers are tested with, and what error messages call them. */
const WRITERS: Readonly<Record<WriterTask, { family: RegExp; words: string }>> = {
  translation: {
    family: /^(?:MarianMTModel|(?:M2M100|MBart)ForConditionalGeneration)$/,
    words: 'a translation model',
  },
  ocr: { family: /^VisionEncoderDecoderModel$/, words: 'an OCR model' },
  stt: { family: /^WhisperForConditionalGeneration$/, words: 'a Whisper model' },
}

/** Vision models with these decoders read text; those with others describe the image. */
const READING_DECODERS = new Set(['trocr', 'mbart'])

/** Encoder families that the specialist server is tested with. */
const ENCODER =
  /^(?:Bert|Roberta|XLMRoberta|Camembert|DistilBert|MPNet|Electra|DebertaV2)(Model|For[A-Za-z]+)$/
const WITHOUT_HEAD = new Set(['Model', 'ForMaskedLM', 'ForPreTraining'])
const WITH_HEAD = 'ForSequenceClassification'

/** Returns whether an architecture belongs to a family that a specialist server is tested with. */
export const isKnownArchitecture = (architecture: string): boolean =>
  ENCODER.test(architecture) || Object.values(WRITERS).some(({ family }) => family.test(architecture))

/** The sentence-transformers modules that the specialist server supports. */
const KNOWN_MODULES = new Set(['Transformer', 'Pooling', 'Normalize'])

/** A classifier's head, as config.json describes it. */
export interface ClassifierHead {
  labels: number
  isMultiLabel: boolean
}

/** Facts that decide, along with the architecture, whether a specialist can serve a task; null if not read. */
export interface ModelConfigFacts {
  head: ClassifierHead | null
  /** The decoder type in config.json. */
  decoder: string | null
  /** The modules listed in modules.json. */
  modules: readonly string[] | null
}

/** The number of labels when config.json doesn't name any. */
const USUAL_LABELS = 2

/** Reads a classifier's head from a config.json; null for any other file. */
export function readHead(config: unknown): ClassifierHead | null {
  if (typeof config !== 'object' || config === null) return null
  const { id2label, num_labels, problem_type } = config as Record<string, unknown>
  const named = typeof id2label === 'object' && id2label !== null ? Object.keys(id2label).length : 0
  const counted = Number.isSafeInteger(num_labels) ? Number(num_labels) : USUAL_LABELS
  return { labels: named > 0 ? named : counted, isMultiLabel: problem_type === 'multi_label_classification' }
}

/** Reads the decoder type from a config.json; null when it names none. */
export function readDecoder(config: unknown): string | null {
  const { decoder } = (typeof config === 'object' && config !== null ? config : {}) as Record<string, unknown>
  const { model_type } = (typeof decoder === 'object' && decoder !== null ? decoder : {}) as Record<
    string,
    unknown
  >
  return typeof model_type === 'string' ? model_type : null
}

/** Reads the module types from a modules.json; null for any other file. */
export function readModules(content: unknown): string[] | null {
  if (!Array.isArray(content)) return null
  return content.map((module: unknown) => {
    const type = typeof module === 'object' && module !== null && 'type' in module ? module.type : ''
    return typeof type === 'string' ? (type.split('.').at(-1) ?? '') : ''
  })
}

/** Returns why an architecture cannot serve a task; undefined when it can. */
export function specialistProblem(
  task: SpecialistTask,
  { architecture, head, decoder, modules }: { architecture: string } & ModelConfigFacts,
): string | undefined {
  if (isWriterTask(task)) {
    const { family, words } = WRITERS[task]
    const isOther = task === 'ocr' && decoder !== null && !READING_DECODERS.has(decoder)
    if (family.test(architecture) && !isOther) return undefined
    const name = isOther ? `${architecture} with a ${decoder} decoder` : architecture
    return `${name} is not ${words} that this platform serves.`
  }
  const [, kind] = ENCODER.exec(architecture) ?? []
  if (kind === undefined) return `${architecture} is not a text encoder that this platform serves.`
  if (task === 'embeddings') {
    const unknown = modules?.find((name) => !KNOWN_MODULES.has(name))
    if (unknown !== undefined)
      return `Its modules.json requires the module ${unknown}, which is not supported here.`
    return WITHOUT_HEAD.has(kind)
      ? undefined
      : `${architecture} has a head for another task and produces no embeddings.`
  }
  if (kind !== WITH_HEAD) return `${architecture} has no classification head, which ${task} needs.`
  if (!head || task === 'classification') return undefined
  const ranks = head.labels === 1 && !head.isMultiLabel
  if (task === 'rerank')
    return ranks
      ? undefined
      : `${architecture} has ${head.labels} labels, but a reranker must have exactly one.`
  return ranks ? `${architecture} has one label and is a reranker, but moderation needs classes.` : undefined
}
