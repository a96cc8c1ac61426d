import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pythonProcessEnv } from '../../../node-runtime/environments/python-env.ts'
import { llmPython } from '../../support/builders/models/tiny-llm.ts'
import {
  convertSpeech,
  requireSpeech,
  tinySpeech,
  wav,
  whisperPython,
} from '../../support/builders/models/tiny-speech.ts'

const PROBE = join(import.meta.dirname, '../../support/builders/probes/speech_probe.py')
/** The length of a window, because the libraries pad shorter audio in different ways. */
const SECONDS = 30
const PROMPTS = [
  ['en', 'transcribe'],
  ['fr', 'transcribe'],
  ['fr', 'translate'],
].map(([language, task]) => ['<|startoftranscript|>', `<|${language}|>`, `<|${task}|>`, '<|notimestamps|>'])

/** The tokens after a prompt, and the mean of their log probabilities. */
type Transcription = [tokens: string[], score: number]

async function probe(python: string, engine: string, folder: string): Promise<Transcription[]> {
  const child = spawn(python, [PROBE, engine, folder], {
    env: pythonProcessEnv({ OMP_NUM_THREADS: '1' }),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const pcm = wav(SECONDS).subarray(44)
  const samples = Array.from({ length: pcm.length / 2 }, (_, i) => pcm.readInt16LE(2 * i) / 32_768)
  child.stdin.end(JSON.stringify({ samples, prompts: PROMPTS }))
  const [out, complaint] = await Promise.all([text(child.stdout), text(child.stderr)])
  const last = out.trimEnd().split('\n').at(-1)
  if (!last) throw new Error(complaint)
  return JSON.parse(last) as Transcription[]
}

describe('a converted speech model', function () {
  this.timeout(600_000)
  before(requireSpeech)

  it('generates the same tokens as transformers, in each language and for each task', async () => {
    const model = await tinySpeech()
    const expected = await probe(await llmPython(), 'transformers', model)
    const found = await probe(await whisperPython(), 'ctranslate2', await convertSpeech(model))

    for (const [i, [tokens, score]] of found.entries()) {
      assert.deepEqual(tokens, expected[i]?.[0])
      assert.ok(Math.abs(score - (expected[i]?.[1] ?? Number.NaN)) < 1e-3, `${score} and ${expected[i]?.[1]}`)
    }
    const [english, french, translated] = found.map(([, score]) => score)
    assert.notEqual(english, french)
    assert.notEqual(french, translated, 'the task makes no difference')
  })
})
