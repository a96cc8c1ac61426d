import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { AdminClient } from '../../cli/admin-client.ts'
import { importModel } from '../../cli/commands/models.ts'
import { openDatabase } from '../../db/database.ts'
import { tinyGeneratives } from '../support/builders/models/tiny-generative.ts'
import { convertSpecialist, tinySpecialist } from '../support/builders/models/tiny-specialist.ts'
import { dataUrl, tinySpeech, wav } from '../support/builders/models/tiny-speech.ts'
import { tinyTranslator } from '../support/builders/models/tiny-translator.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { processesOn, type TestPlatform } from '../support/servers/platform.ts'
import { databaseUrl } from './chats.ts'
import type { Model } from './work.ts'

const PRICE_MICRO = 10_000

/** A model of one kind with a price. */
export interface Kind extends Model {
  name: string
  /** An input that takes a second or more, and one that finishes at once. */
  long: object
  short: object
  /** Part of its server's command line. */
  server: string
}

interface Recipe extends Pick<Kind, 'name' | 'long' | 'short'> {
  /** Returns the folder of the model, which may be inside the scratch folder. */
  folder: (scratch: string) => Promise<string>
}

const IN_FRENCH = { source_language: 'eng_Latn', target_language: 'fra_Latn' }
const WORDS = 'the quick brown fox jumps over the lazy dog '

const RECIPES: readonly Recipe[] = [
  {
    name: 'embeddings',
    folder: embeddingsAsOnnx,
    long: { text: Array.from({ length: 600 }, (_, i) => WORDS.repeat(5) + i) },
    short: { text: 'hello' },
  },
  {
    name: 'translation',
    folder: () => tinyTranslator(),
    long: { text: WORDS.repeat(4), ...IN_FRENCH },
    short: { text: 'hello', ...IN_FRENCH },
  },
  {
    name: 'stt',
    folder: () => tinySpeech(),
    long: { audio_url: dataUrl(wav(30)), language: 'en' },
    short: { audio_url: dataUrl(wav(1)), language: 'en' },
  },
  {
    name: 'text-to-audio',
    folder: async () => (await tinyGeneratives([{ kind: 'musicgen' }]))[0] ?? '',
    long: { prompt: 'waves', duration_s: 4 },
    short: { prompt: 'waves', duration_s: 0.2 },
  },
]

/** Writes a BERT with an ONNX file and no other weights, so that its node needn't convert any with PyTorch. */
async function embeddingsAsOnnx(scratch: string): Promise<string> {
  const source = await tinySpecialist()
  const isWeights = (path: string) => path.endsWith('.safetensors')
  const folder = join(scratch, 'embeddings')
  await cp(source, folder, { recursive: true, filter: (path) => !isWeights(path) })
  await cp(join(await convertSpecialist(source), 'model.onnx'), join(folder, 'onnx', 'model.onnx'))
  return folder
}

/** Imports one model of each kind, with prices, so that there are ledger entries to check. */
export async function importKinds(platform: TestPlatform): Promise<Kind[]> {
  const { base_url, operations_key, account_id: accountId } = platform.ready
  const client = new AdminClient(base_url, operations_key)
  await using db = openDatabase(databaseUrl(platform), { max: 1 })
  using scratch = temporaryFolder()
  const kinds: Kind[] = []
  for (const { folder, ...recipe } of RECIPES) {
    const order = {
      name: `kind-${recipe.name}`,
      path: await folder(scratch.path),
      task: recipe.name,
      accountId,
    }
    const { endpoint_id: endpointId, model_key: server } = await importModel(client, order)
    await db.updateTable('endpoint').set({ price_micro: PRICE_MICRO }).where('id', '=', endpointId).execute()
    kinds.push({ ...recipe, endpointId, server })
  }
  return kinds
}

/** Returns the server processes of a kind, without the watchdog program. */
export const serversOfKind = (dataDir: string, { server }: Kind): number[] =>
  processesOn(dataDir)
    .filter(({ command }) => command.includes(server) && !command.includes('launcher.py'))
    .map(({ pid }) => pid)
