import { createHash } from 'node:crypto'
import { cp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pythonOf } from '../../servers/nodes/trainer.ts'
import { requireInstalled } from '../../skip.ts'
import { filesOf } from './hub-repos.ts'
import { flagsOf, buildFolders } from './made-models.ts'
import { llmPython } from './tiny-llm.ts'

const MAKER = join(import.meta.dirname, 'tiny_specialist.py')
const GGUF_MAKER = join(import.meta.dirname, 'specialist_gguf.py')
const SERVERS = join(import.meta.dirname, '..', '..', '..', '..', 'node-runtime', 'servers')
const CONVERTER = join(SERVERS, 'specialist_convert.py')
/** Copies a created model before it's checked, because the check changes it. */
const CHECKED = join(import.meta.dirname, 'check_copy.py')
const CHECK = join(SERVERS, 'specialist_check.py')

export const ARCHITECTURES = [
  'bert',
  'roberta',
  'xlm-roberta',
  'camembert',
  'distilbert',
  'mpnet',
  'electra',
  'deberta-v2',
] as const

/** Options that make a tiny specialist differ from the default one, a BERT for embeddings. */
export interface TinySpecialist {
  kind?: 'embeddings' | 'rerank' | 'moderation' | 'classification'
  architecture?: (typeof ARCHITECTURES)[number]
  seed?: number
  hidden?: number
  layers?: number
  heads?: number
  extraVocab?: number
  positions?: number
  vocab?: number
  dtype?: 'bfloat16' | 'float16' | 'float32'
  pooling?: 'mean' | 'cls' | 'max'
  /** The lengths to which the model declares that its vectors can be truncated. */
  dimensions?: readonly number[]
  prompts?: Readonly<Record<string, string>>
  promptExcluded?: boolean
  unnormalized?: boolean
  /** Omits the sentence-transformers layout. */
  plain?: boolean
  /** The first position whose weights are NaN. */
  broken?: number
}

/** Returns the interpreter of the specialist environment, installed on first use. */
export const specialistPython = (): Promise<string> => pythonOf('specialist')

/** For `before`: skips the tests of a suite, with the reason, if the environments can't be installed. */
export async function requireSpecialist(this: Mocha.Context): Promise<void> {
  this.timeout(1_800_000)
  await requireInstalled(this, process.env.HEARTH_TEST_LLM_MISSING, llmPython)
  await requireInstalled(this, process.env.HEARTH_TEST_SPECIALIST_MISSING, specialistPython)
}

/** Returns the folders of tiny specialists with random weights, created once per machine. */
export async function tinySpecialists(all: readonly TinySpecialist[]): Promise<string[]> {
  const makings = all.map((options) => {
    const inputs = flagsOf(options)
    return { program: MAKER, inputs, args: (draft: string) => [draft, ...inputs] }
  })
  return buildFolders(await llmPython(), makings)
}

export async function tinySpecialist(options: TinySpecialist = {}): Promise<string> {
  const [folder = ''] = await tinySpecialists([options])
  return folder
}

/**
 * Returns a tiny BERT as GGUF in float32, and a folder with the same weights for transformers. llama.cpp has no token
 * types, so all types have equal weights.
 */
export async function tinySpecialistGguf(
  options: TinySpecialist,
  pooling: 'mean' | 'cls' | 'rank',
): Promise<{ path: string; plain: string }> {
  const source = await tinySpecialist(options)
  const inputs = [await digestOf(source), pooling]
  const args = (draft: string) => [source, draft, '--pooling', pooling]
  const [folder = ''] = await buildFolders(await llmPython(), [{ program: GGUF_MAKER, inputs, args }])
  return { path: join(folder, 'model.gguf'), plain: join(folder, 'plain') }
}

/** Writes a tiny specialist to `folder`, for a test that changes it. */
export async function makeTinySpecialist(folder: string, options: TinySpecialist = {}): Promise<void> {
  await cp(await tinySpecialist(options), folder, { recursive: true })
}

/** Returns the folders of converted models, created once per machine with the same check as on a node. */
export async function convertSpecialists(models: readonly string[]): Promise<string[]> {
  const digests = await Promise.all(models.map(digestOf))
  const converted = await buildFolders(
    await llmPython(),
    models.map((model, i) => ({
      program: CONVERTER,
      inputs: [digests[i] ?? ''],
      args: (out: string) => ['--model', model, '--out', out],
    })),
  )
  const converter = await readFile(CONVERTER, 'utf8')
  return buildFolders(
    await specialistPython(),
    models.map((model, i) => {
      const made = converted[i] ?? ''
      return {
        program: CHECKED,
        inputs: [digests[i] ?? '', converter, CHECK],
        args: (out: string) => [made, out, CHECK, '--model', model, '--out', out],
      }
    }),
  )
}

export async function convertSpecialist(model: string): Promise<string> {
  const [folder = ''] = await convertSpecialists([model])
  return folder
}

async function digestOf(folder: string): Promise<string> {
  const digest = createHash('sha256')
  const files = Object.entries(await filesOf(folder)).toSorted(([a], [b]) => a.localeCompare(b))
  for (const [path, bytes] of files) digest.update(path).update(bytes)
  return digest.digest('hex')
}
