// Compares the Whisper server over HTTP with bare faster-whisper, transcribing 30 s of audio with the same converted
// weights, on one thread each and in turn: npm run bench:speech [-- --rounds 7]
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { peakMb } from '../node-runtime/processes/process-usage.ts'
import {
  convertSpeech,
  dataUrl,
  tinySpeech,
  wav,
  whisperPython,
} from '../test/support/builders/models/tiny-speech.ts'
import { startSpecialist, WHISPER } from '../test/support/servers/nodes/specialist.ts'
import { type CpuTimes, startLineProgram } from './line-program.ts'
import { cpuSeconds, median } from './platform.ts'

/** The shape of Whisper tiny with a small vocabulary. */
const TINY = { hidden: 384, layers: 4, heads: 6, feedForward: 1536 }
const SECONDS = 30
/** With 0, the library would retry the output of random weights at higher temperatures. */
const TEMPERATURE = 0.01
const { values } = parseArgs({ options: { rounds: { type: 'string', default: '7' } } })

const folder = mkdtempSync(join(tmpdir(), 'hearth-bench-speech-'))
try {
  const model = await tinySpeech(TINY)
  const converted = await convertSpeech(model)
  const file = join(folder, 'sound.wav')
  writeFileSync(file, wav(SECONDS))
  const request = { file: dataUrl(wav(SECONDS)), language: 'en', temperature: TEMPERATURE }
  await using server = await startSpecialist(model, converted, WHISPER)
  const args = [join(import.meta.dirname, 'speech', 'peer.py'), converted, file, String(TEMPERATURE)]
  await using peer = await startLineProgram(await whisperPython(), args)
  const [ours, theirs]: [CpuTimes[], CpuTimes[]] = [[], []]
  for (let round = 0; round < Number(values.rounds); round++) {
    const [began, cpu] = [performance.now(), cpuSeconds(server.pid)]
    const { status, body } = await server.post('/v1/audio/transcriptions', request)
    if (status !== 200) throw new Error(`the server returned ${status}: ${JSON.stringify(body)}`)
    ours.push({ clock: (performance.now() - began) / 1_000, cpu: cpuSeconds(server.pid) - cpu })
    theirs.push(await peer.seconds(''))
  }
  const formatTurns = async (turns: readonly CpuTimes[], pid: number) =>
    `${median(turns.map(({ clock }) => clock)).toFixed(2)} s, ${median(turns.map(({ cpu }) => cpu)).toFixed(2)} s of CPU, ` +
    `${Math.round(await peakMb([pid]))} MB`
  console.log(`server over HTTP       ${await formatTurns(ours, server.pid)}`)
  console.log(`faster-whisper alone   ${await formatTurns(theirs, peer.pid)}`)
  const ratio = median(ours.map(({ clock }) => clock)) / median(theirs.map(({ clock }) => clock))
  console.log(`${ratio.toFixed(2)} times, goal at most 1.15: ${ratio <= 1.15 ? 'met' : 'MISSED'}`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
