// Speech to text of 30 s of sound by the Whisper server, over HTTP, beside faster-whisper alone with the same converted
// weights, on one thread each and in turn: npm run bench:speech [-- --rounds 7]
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { pythonProcessEnv } from '../node-runtime/environments/python-env.ts'
import {
  convertedSpeech,
  dataUrl,
  tinySpeech,
  wav,
  whisperPython,
} from '../test/support/builders/tiny-speech.ts'
import { startSpecialist, WHISPER } from '../test/support/servers/specialist.ts'
import { cpuSeconds, median } from './platform.ts'

/** The shape of Whisper tiny, with a small vocabulary. */
const TINY = { hidden: 384, layers: 4, heads: 6, feedForward: 1536 }
const SECONDS = 30
/** Zero would let the library try again at random with higher ones what random weights say. */
const TEMPERATURE = 0.01
const { values } = parseArgs({ options: { rounds: { type: 'string', default: '7' } } })

interface Turn {
  clock: number
  cpu: number
}

const folder = mkdtempSync(join(tmpdir(), 'hearth-bench-speech-'))
try {
  const model = await tinySpeech(TINY)
  const converted = await convertedSpeech(model)
  const file = join(folder, 'sound.wav')
  writeFileSync(file, wav(SECONDS))
  const request = { file: dataUrl(wav(SECONDS)), language: 'en', temperature: TEMPERATURE }
  await using server = await startSpecialist(model, converted, WHISPER)
  const args = [join(import.meta.dirname, 'speech', 'peer.py'), converted, file, String(TEMPERATURE)]
  const peer = spawn(await whisperPython(), args, {
    env: pythonProcessEnv({ OMP_NUM_THREADS: '1', HF_HUB_OFFLINE: '1' }),
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const lines = createInterface({ input: peer.stdout })[Symbol.asyncIterator]()
  const next = async () => {
    const { value, done } = await lines.next()
    if (done) throw new Error('faster-whisper has ended')
    return value
  }
  await next()
  const [ours, theirs]: [Turn[], Turn[]] = [[], []]
  for (let round = 0; round < Number(values.rounds); round++) {
    const [began, cpu] = [performance.now(), cpuSeconds(server.pid)]
    const { status, body } = await server.post('/v1/audio/transcriptions', request)
    if (status !== 200) throw new Error(`the server answered ${status}: ${JSON.stringify(body)}`)
    ours.push({ clock: (performance.now() - began) / 1_000, cpu: cpuSeconds(server.pid) - cpu })
    peer.stdin.write('\n')
    const [clock = 0, used = 0] = (await next()).split(' ').map(Number)
    theirs.push({ clock, cpu: used })
  }
  const mb = (pid: number) =>
    Math.round(Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024)
  const told = (turns: readonly Turn[], pid: number) =>
    `${median(turns.map(({ clock }) => clock)).toFixed(2)} s, ${median(turns.map(({ cpu }) => cpu)).toFixed(2)} s of CPU, ${mb(pid)} MB`
  console.log(`server over HTTP       ${told(ours, server.pid)}`)
  console.log(`faster-whisper alone   ${told(theirs, peer.pid ?? 0)}`)
  const ratio = median(ours.map(({ clock }) => clock)) / median(theirs.map(({ clock }) => clock))
  console.log(`${ratio.toFixed(2)} times, goal at most 1.15: ${ratio <= 1.15 ? 'met' : 'MISSED'}`)
  peer.stdin.end()
} finally {
  rmSync(folder, { recursive: true, force: true })
}
