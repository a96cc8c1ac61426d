import { join } from 'node:path'
import { pythonProcessEnv } from '../../node-runtime/environments/python-env.ts'
import { runProgram } from '../../platform/processes/run-program.ts'
import type { Machine } from './machine.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const MAKERS = join(ROOT, 'test', 'support', 'builders', 'models')
const IMAGE_MAKER = join(ROOT, 'bench', 'generation', 'model.py')
const TOKENIZER_WORDS = 512
const BERT_EXTRA_VOCAB = 30_266

export type ModelName = 'llm' | 'embedder' | 'image'

/** Returns the folder of a model, whether it has been created or not. */
export const modelFolder = ({ dir }: Machine, name: ModelName): string => join(dir, `model-${name}`)

/** Creates a model with random weights. */
export async function makeModel(machine: Machine, name: ModelName, signal: AbortSignal): Promise<void> {
  const env = pythonProcessEnv({ HF_HUB_OFFLINE: '1' })
  await runProgram(machine.python, argsOf(machine, name), { env, signal, killSignal: 'SIGKILL' })
}

function argsOf(machine: Machine, name: ModelName): string[] {
  const { llm, embedder, image, chat } = machine.scale
  const folder = modelFolder(machine, name)
  switch (name) {
    case 'llm':
      return [
        join(MAKERS, 'tiny_llm.py'),
        folder,
        `--hidden=${llm.hidden}`,
        `--layers=${llm.layers}`,
        `--intermediate=${llm.intermediate}`,
        `--heads=${llm.heads}`,
        `--kv-heads=${llm.kvHeads}`,
        `--vocab=${TOKENIZER_WORDS}`,
        `--extra-vocab=${llm.vocabulary - TOKENIZER_WORDS}`,
        `--positions=${2 * chat.promptTokens}`,
        '--tied',
      ]
    case 'embedder':
      return [
        join(MAKERS, 'tiny_specialist.py'),
        folder,
        `--hidden=${embedder.hidden}`,
        `--layers=${embedder.layers}`,
        `--heads=${embedder.heads}`,
        `--extra-vocab=${BERT_EXTRA_VOCAB}`,
        '--positions=512',
        `--dtype=${embedder.dtype}`,
      ]
    case 'image':
      return [IMAGE_MAKER, folder, image.size]
  }
}
