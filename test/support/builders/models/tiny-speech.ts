import { join } from 'node:path'
import { pythonOf } from '../../servers/nodes/trainer.ts'
import { requireInstalled } from '../../skip.ts'
import { flagsOf, buildFolders } from './made-models.ts'
import { llmPython } from './tiny-llm.ts'

const MAKER = join(import.meta.dirname, 'tiny_speech.py')
const CONVERTER = join(import.meta.dirname, '../../../../node-runtime/servers/whisper_convert.py')

/** Returns the interpreter of the speech-to-text environment, installed on first use. */
export const whisperPython = (): Promise<string> => pythonOf('whisper')

/** For `before`: skips the tests of a suite, with the reason, if the environments can't be installed. */
export async function requireSpeech(this: Mocha.Context): Promise<void> {
  this.timeout(1_800_000)
  await requireInstalled(this, process.env.HEARTH_TEST_LLM_MISSING, llmPython)
  await requireInstalled(this, process.env.HEARTH_TEST_WHISPER_MISSING, whisperPython)
}

/** Options that make a Whisper differ from the default tiny one. */
export interface TinySpeech {
  hidden?: number
  layers?: number
  heads?: number
  feedForward?: number
}

/** Returns the folder of a tiny Whisper with random weights, created once per machine. */
export async function tinySpeech(options: TinySpeech = {}): Promise<string> {
  const inputs = flagsOf(options)
  const making = { program: MAKER, inputs, args: (folder: string) => [folder, ...inputs] }
  const [folder = ''] = await buildFolders(await llmPython(), [making])
  return folder
}

/** Returns the folder of a Whisper converted for CTranslate2. */
export async function convertSpeech(model: string): Promise<string> {
  const args = (out: string) => ['--model', model, '--out', out]
  const making = { program: CONVERTER, inputs: [model], args }
  const [folder = ''] = await buildFolders(await llmPython(), [making])
  return folder
}

/** Returns a mono WAV: a changing tone, or silence. */
export function wav(seconds: number, { silent = false, rate = 16_000 } = {}): Buffer<ArrayBuffer> {
  const count = Math.round(seconds * rate)
  const bytes = Buffer.alloc(44 + 2 * count)
  bytes.write('RIFF', 0)
  bytes.writeUInt32LE(36 + 2 * count, 4)
  bytes.write('WAVEfmt ', 8)
  bytes.writeUInt32LE(16, 16)
  bytes.writeUInt16LE(1, 20)
  bytes.writeUInt16LE(1, 22)
  bytes.writeUInt32LE(rate, 24)
  bytes.writeUInt32LE(2 * rate, 28)
  bytes.writeUInt16LE(2, 32)
  bytes.writeUInt16LE(16, 34)
  bytes.write('data', 36)
  bytes.writeUInt32LE(2 * count, 40)
  if (silent) return bytes
  for (let i = 0; i < count; i++) {
    const sample = 9_000 * Math.sin((i * (200 + 300 * Math.sin(i / 9_000))) / rate)
    bytes.writeInt16LE(Math.round(sample), 44 + 2 * i)
  }
  return bytes
}

export const dataUrl = (bytes: Buffer): string => `data:audio/wav;base64,${bytes.toString('base64')}`
