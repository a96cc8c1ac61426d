/** The tasks that encoders of texts serve, with one output for each text. */
const ENCODER_TASKS = ['embeddings', 'rerank', 'moderation', 'classification'] as const
/** The tasks of models that write text. */
const WRITER_TASKS = ['translation', 'ocr', 'stt'] as const
type WriterTask = (typeof WRITER_TASKS)[number]
export type SpecialistTask = (typeof ENCODER_TASKS)[number] | WriterTask

export const isEncoderTask = (task: string): boolean => (ENCODER_TASKS as readonly string[]).includes(task)

export const isWriterTask = (task: string): task is WriterTask =>
  (WRITER_TASKS as readonly string[]).includes(task)

export const isSpecialistTask = (task: string): task is SpecialistTask =>
  isEncoderTask(task) || isWriterTask(task)

/** Families of writers that their servers are tested with, and what they are. */
const WRITERS: Readonly<Record<WriterTask, { family: RegExp; words: string }>> = {
  translation: {
    family: /^(?:MarianMTModel|(?:M2M100|MBart)ForConditionalGeneration)$/,
    words: 'model of translation',
  },
  ocr: { family: /^VisionEncoderDecoderModel$/, words: 'reader of pictures' },
  stt: { family: /^WhisperForConditionalGeneration$/, words: 'Whisper model' },
}

/** Models of pictures with these decoders read; those with others describe what they see. */
const READING_DECODERS = new Set(['trocr', 'mbart'])

/** Families of encoders that the specialist server is tested with, and what their classes are for. */
const ENCODER =
  /^(?:Bert|Roberta|XLMRoberta|Camembert|DistilBert|MPNet|Electra|DebertaV2)(Model|For[A-Za-z]+)$/
const WITHOUT_HEAD = new Set(['Model', 'ForMaskedLM', 'ForPreTraining'])
const WITH_HEAD = 'ForSequenceClassification'

/** Returns whether an architecture belongs to a family that a server of specialists is tested with. */
export const isKnownArchitecture = (architecture: string): boolean =>
  ENCODER.test(architecture) || Object.values(WRITERS).some(({ family }) => family.test(architecture))

/** Modules of sentence-transformers that the specialist server knows. */
const KNOWN_MODULES = new Set(['Transformer', 'Pooling', 'Normalize'])

/** The head of a classifier, as config.json describes it. */
export interface Head {
  labels: number
  isMultiLabel: boolean
}

/** The facts beyond the architecture on which it depends whether a specialist serves a task; null when not read. */
export interface InConfig {
  head: Head | null
  /** The kind of the decoder in config.json. */
  decoder: string | null
  /** The modules of modules.json. */
  modules: readonly string[] | null
}

/** The labels of a classifier whose config.json does not name any. */
const USUAL_LABELS = 2

/** Reads the head from a config.json; null for any other file. */
export function readHead(config: unknown): Head | null {
  if (typeof config !== 'object' || config === null) return null
  const { id2label, num_labels, problem_type } = config as Record<string, unknown>
  const named = typeof id2label === 'object' && id2label !== null ? Object.keys(id2label).length : 0
  const counted = Number.isSafeInteger(num_labels) ? Number(num_labels) : USUAL_LABELS
  return { labels: named > 0 ? named : counted, isMultiLabel: problem_type === 'multi_label_classification' }
}

/** Reads the kind of the decoder from a config.json; null when it names none. */
export function readDecoder(config: unknown): string | null {
  const { decoder } = (typeof config === 'object' && config !== null ? config : {}) as Record<string, unknown>
  const { model_type } = (typeof decoder === 'object' && decoder !== null ? decoder : {}) as Record<
    string,
    unknown
  >
  return typeof model_type === 'string' ? model_type : null
}

/** Reads the kinds of modules from a modules.json; null for any other file. */
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
  { architecture, head, decoder, modules }: { architecture: string } & InConfig,
): string | undefined {
  if (isWriterTask(task)) {
    const { family, words } = WRITERS[task]
    const isOther = task === 'ocr' && decoder !== null && !READING_DECODERS.has(decoder)
    if (family.test(architecture) && !isOther) return undefined
    const name = isOther ? `${architecture} with a decoder of the kind ${decoder}` : architecture
    return `${name} is no ${words} that this platform serves.`
  }
  const [, kind] = ENCODER.exec(architecture) ?? []
  if (kind === undefined) return `${architecture} is no encoder of texts that this platform serves.`
  if (task === 'embeddings') {
    const unknown = modules?.find((name) => !KNOWN_MODULES.has(name))
    if (unknown !== undefined) return `Its modules.json wants the module ${unknown}, which is not known here.`
    return WITHOUT_HEAD.has(kind)
      ? undefined
      : `${architecture} has a head for another task and gives no embeddings.`
  }
  if (kind !== WITH_HEAD) return `${architecture} has no head for classes, which ${task} needs.`
  if (!head || task === 'classification') return undefined
  const ranks = head.labels === 1 && !head.isMultiLabel
  if (task === 'rerank')
    return ranks ? undefined : `${architecture} has ${head.labels} labels; a reranker has one.`
  return ranks ? `${architecture} has one label and is a reranker; moderation needs classes.` : undefined
}
