import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { importedListing } from '../../../domain/task-types/index.ts'
import { pythonProcessEnv } from '../../../node-runtime/environments/python-env.ts'
import {
  convertSpeech,
  dataUrl,
  requireSpeech,
  tinySpeech,
  wav,
  whisperPython,
} from '../../support/builders/models/tiny-speech.ts'
import { type SpecialistServer, startSpecialist, WHISPER } from '../../support/servers/nodes/specialist.ts'

const MP3_OF = join(import.meta.dirname, '../../support/builders/probes/mp3_of.py')

async function mp3(seconds: number, silent = false): Promise<Buffer> {
  const child = spawn(await whisperPython(), [MP3_OF], { env: pythonProcessEnv({ OMP_NUM_THREADS: '1' }) })
  child.stdin.end(wav(seconds, { silent }))
  return buffer(child.stdout)
}

describe('the speech-to-text server', function () {
  this.timeout(600_000)
  let server: SpecialistServer
  before(requireSpeech)
  before(async () => {
    const model = await tinySpeech()
    server = await startSpecialist(model, await convertSpeech(model), WHISPER)
  })
  after(() => server?.[Symbol.asyncDispose]())

  const hear = (bytes: Buffer, signal?: AbortSignal) =>
    server.ask({ audio_url: dataUrl(bytes), language: 'en' }, 'stt', signal)

  it('rejects files that only refer to audio elsewhere, and never opens a socket for them', async () => {
    await using taken = createSocket('udp4')
    taken.bind(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port } = taken.address()
    const session = `v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=a\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio ${port + 1} RTP/AVP 97\r\na=rtpmap:97 L16/16000/1\r\n`
    const lists = [
      'ffconcat version 1.0\nfile /etc/hostname\n',
      '#EXTM3U\n#EXTINF:5,\nfile:///etc/hostname\n',
    ]

    for (const description of [session, ...lists]) {
      const began = performance.now()
      const { status, body } = await hear(Buffer.from(description))

      assert.equal(status, 422, description)
      assert.match(body.error.message, /^audio_url must be audio, for example in WAV, MP3/)
      // FFmpeg waits twenty seconds for the packets of a session.
      assert.ok(performance.now() - began < 5_000, `${performance.now() - began} ms`)
    }
  })

  it('transcribes the example input that imported models list for this task type', async () => {
    const { example_input } = importedListing('stt')
    const { status, body } = await server.ask(example_input, 'stt')

    assert.equal(status, 200, JSON.stringify(body))
    assert.equal(body.duration_s, 0.05)
  })

  it('transcribes the audio after a damaged spot', async () => {
    const bytes = await mp3(20)
    const third = Math.round(bytes.length / 3)
    for (let i = 0; i < 600; i++) bytes[third + i] = (i * i * 31 + i * 7) & 0xff

    const { status, body } = await hear(bytes)

    assert.equal(status, 200, JSON.stringify(body))
    assert.ok(body.duration_s > 19 && body.duration_s < 20, `${body.duration_s} s`)
  })

  it('stops decoding audio when its caller leaves', async () => {
    const long = await mp3(600, true)
    const began = performance.now()
    assert.equal((await hear(long)).body.duration_s, 600)
    const whole = performance.now() - began

    const leaving = hear(long, AbortSignal.timeout(Math.round(whole / 5)))
    await assert.rejects(leaving)
    const cancelledAt = performance.now()
    assert.equal((await hear(wav(1, { silent: true }))).status, 200)
    const waited = performance.now() - cancelledAt

    assert.ok(waited < whole / 3, `the next one waited ${waited} ms for a sound of ${whole} ms`)
  })
})
