import assert from 'node:assert/strict'
import type { NewTask } from '../../db/tables/inference.ts'
import { until } from '../support/assertions/until.ts'
import { buildHeldTask } from '../support/builders/build-endpoint.ts'
import { wav } from '../support/builders/models/tiny-speech.ts'
import { pngOf } from '../support/builders/png.ts'
import { ConsoleWorld } from '../support/servers/worlds/console-world.ts'

describe('results in the console', function () {
  this.timeout(120_000)
  let on: ConsoleWorld
  before(async function () {
    on = await ConsoleWorld.start(this)
  })
  after(() => on?.[Symbol.asyncDispose]())

  /** Opens the page of a task that ended with this result. */
  const opened = async (result: object, more: Partial<NewTask> = {}) => {
    const ended = {
      status: 'succeeded',
      completed_at: new Date(),
      result: Buffer.from(JSON.stringify(result)),
    }
    const id = await buildHeldTask(on.api.database.db, on.caller.accountId, {
      ...ended,
      ...more,
    } as Partial<NewTask>)
    return on.open(`/tasks/${id}`)
  }

  it('play audio from signed URLs', async () => {
    const sound = wav(1)
    await on.api.services.objects.put('made/sound.wav', sound, { contentType: 'audio/wav' })
    const output = {
      filename: 'sound.wav',
      object_key: 'made/sound.wav',
      content_type: 'audio/wav',
      size_bytes: sound.length,
      modality: 'audio',
    }
    await using tab = await opened({ metadata: {} }, { outputs: JSON.stringify([output]) as never })

    const player = tab.page.getByLabel('sound.wav')
    await player.waitFor()
    const duration = () => player.evaluate((audio: { duration: number }) => audio.duration)
    await until(async () => (await duration()) > 0.9)
    await tab.page.getByRole('link', { name: 'sound.wav' }).waitFor()
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it('show the printed output and the images of tools', async () => {
    await using program = await opened({ stdout: '42\n', stderr: 'a warning\n', exit_code: 3 })
    await program.page.getByLabel('output', { exact: true }).getByText('42').waitFor()
    await program.page.getByLabel('error output', { exact: true }).getByText('a warning').waitFor()
    await program.page.getByText('It ended with 3.').waitFor()
    assert.deepEqual(await program.barriers(), [])

    const picture = pngOf(3, 2, () => 99).toString('base64')
    await using made = await opened({ image_base64: picture, content_type: 'image/png', width: 3, height: 2 })
    const shown = made.page.getByRole('img', { name: 'The result' })
    await until(async () => (await shown.evaluate((img: { naturalWidth: number }) => img.naturalWidth)) === 3)
    assert.ok(!(await made.page.getByLabel('result', { exact: true }).textContent())?.includes(picture))
    assert.deepEqual([...program.faults, ...made.faults], [])
  })
})
