import assert from 'node:assert/strict'
import { request } from 'undici'
import { createMaintenanceActivities } from '../../../activities/control/housekeeping/retention.ts'
import { GENERATIVE_TASK_TYPES } from '../../../domain/task-types/generative.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import { evaluate } from '../../support/builders/cohorts/evidence.ts'
import { requireGenerative } from '../../support/builders/models/tiny-generative.ts'
import { tinyReader } from '../../support/builders/models/tiny-reader.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { GenerativeWorld } from '../../support/servers/worlds/generative-world.ts'

const DRAW = { prompt: 'a ball', width: 64, height: 64, num_inference_steps: 2, seed: 7 }

describe('files of cohort stages', function () {
  this.timeout(300_000)
  let world: GenerativeWorld
  before(requireGenerative)
  before(async () => {
    world = await GenerativeWorld.start()
    await world.import('pictures', 'text-to-image', { kind: 'stable-diffusion' })
    await world.on.import({ name: 'reader', path: await tinyReader(), task: 'ocr' })
  })
  after(() => world?.[Symbol.asyncDispose]())

  const call = (method: 'GET' | 'POST', path: string, body?: object) =>
    world.on.api.call(method, path, {
      key: world.on.key,
      headers: { 'x-account-id': world.on.accountId, 'x-user-id': 'someone' },
      ...(body && { body }),
    })
  const run = async (plan: PlanRequest, more: object = {}): Promise<AnyBody> => {
    const { status, body } = await call('POST', '/api/v1/cohorts:run', { plan, input: {}, ...more })
    assert.equal(status, 202, JSON.stringify(body))
    await until(
      async () => ['succeeded', 'failed'].includes((await world.on.task(body.task_id)).status),
      240_000,
    )
    return body
  }
  const cohort = async ({ task_id }: AnyBody): Promise<AnyBody> =>
    (await call('GET', `/api/v1/tasks/${task_id}/cohort`)).body
  const download = async (url: string): Promise<Buffer> => {
    const { statusCode, body } = await request(url)
    assert.equal(statusCode, 200)
    return Buffer.from(await body.arrayBuffer())
  }
  /** Lists the files that the stages of a cohort have left in the store. */
  const filesOf = async ({ cohort_id }: AnyBody): Promise<string[]> => {
    const { db } = world.on.api.database
    const stages = await db
      .selectFrom('cohort_stage')
      .select('id')
      .where('cohort_id', '=', cohort_id)
      .execute()
    return (await world.outputs()).filter((key) => stages.some(({ id }) => key.includes(id)))
  }
  const untilDeleted = (accepted: AnyBody) =>
    until(async () => (await filesOf(accepted)).length === 0, 30_000)

  const draw = { stage_id: 'draw', endpoint_id: 'pictures', input: DRAW }
  const read = { stage_id: 'read', endpoint_id: 'reader' }
  const picture = { stage_id: 'draw', path: '/output_artifacts/0/url' }
  const fromInput = {
    from: { stage_id: 'input', path: '/url' },
    to: { stage_id: 'read', path: '/image_url' },
  }
  const shown: PlanRequest = {
    name: 'images that are read',
    stages: [draw, read],
    edges: [{ from: picture, to: { stage_id: 'read', path: '/image_url' } }],
    outputs: [
      { name: 'made', stage_id: 'draw' },
      { name: 'where', ...picture },
      { name: 'text', stage_id: 'read' },
    ],
  }

  it('appear in outputs as downloadable URLs, and reach the stages that consume them', async () => {
    const accepted = await run(shown)

    const { status, result, error } = await world.on.task(accepted.task_id)
    assert.equal(status, 'succeeded', error)
    const { output_artifacts, metadata } = result.made
    const [artifact] = output_artifacts
    const bytes = await download(artifact.url)
    assert.deepEqual(
      [artifact.filename, artifact.content_type, artifact.modality, artifact.size_bytes, metadata.seed],
      ['image.png', 'image/png', 'image', bytes.length, 7],
    )
    const hours = (Date.parse(artifact.expires_at) - Date.now()) / 3_600_000
    assert.ok(hours > 23.9 && hours <= 24, `${hours} hours`)
    assert.deepEqual(await download(result.where), bytes)
    const itself = await world.ask('pictures', DRAW)
    assert.deepEqual(await download(itself.result.output_artifacts[0].url), bytes)
    const image_url = `data:image/png;base64,${bytes.toString('base64')}`
    assert.equal(result.text.text, (await world.ask('reader', { image_url })).result.text)
    assert.equal((await filesOf(accepted)).length, 1)
  })

  it('pass between media spaces only if the types match', async () => {
    const register = async (endpoint: string, name: string, role: string, content_types: string[]) => {
      const { body } = await call('GET', `/api/v1/cohorts/capabilities?endpoint_id=${endpoint}`)
      const { status, text } = await evaluate(world.on.api, 'model-spaces', {
        model_config_id: body.model_config_id,
        spaces: [{ name, role, kind: 'media', content_types }],
      })
      assert.equal(status, 200, text)
    }
    const edges = shown.edges.map((edge) => ({ ...edge, space: { source: 'images', target: 'page' } }))
    await register('pictures', 'images', 'produces', ['image/png'])
    await register('reader', 'page', 'accepts', ['image/jpeg'])
    const refused = (await call('POST', '/api/v1/cohorts:plan', { ...shown, edges })).body
    assert.deepEqual(
      refused.reasons.map(({ code }: AnyBody) => code),
      ['space_mismatch'],
    )
    assert.match(refused.reasons[0].message, /"images" gives image\/png, and "page" takes image\/jpeg/)

    await register('reader', 'page', 'accepts', ['image/jpeg', 'image/png'])
    const accepted = await run({ ...shown, edges })
    const { status, result, error } = await world.on.task(accepted.task_id)
    assert.equal(status, 'succeeded', error)
    assert.equal(typeof result.text.text, 'string')
    const [edge] = (await cohort(accepted)).edges
    assert.deepEqual([edge.kind, edge.state], ['media', 'consumed'])
  })

  it('can come from uploads', async () => {
    const [, png = ''] = String(GENERATIVE_TASK_TYPES['image-to-3d']?.warmup_input?.image_url).split(',')
    const url = await world.upload('reader', Buffer.from(png, 'base64'))
    const plan: PlanRequest = {
      stages: [read],
      edges: [fromInput],
      outputs: [{ name: 'text', stage_id: 'read' }],
    }
    const accepted = await run(plan, { input: { url } })

    const { status, result, error } = await world.on.task(accepted.task_id)
    assert.equal(status, 'succeeded', error)
    const itself = await world.ask('reader', { image_url: `data:image/png;base64,${png}` })
    assert.equal(result.text.text, itself.result.text)
  })

  it('are removed at the end if no output names them', async () => {
    const accepted = await run({ ...shown, outputs: [{ name: 'text', stage_id: 'read' }] })

    assert.equal((await world.on.task(accepted.task_id)).status, 'succeeded')
    await untilDeleted(accepted)
  })

  it('are removed with a cancelled cohort', async () => {
    const plan: PlanRequest = {
      stages: [draw, { ...draw, stage_id: 'again', input: { ...DRAW, num_inference_steps: 900 } }],
      edges: [
        { from: { stage_id: 'draw', path: '/metadata/seed' }, to: { stage_id: 'again', path: '/seed' } },
      ],
    }
    const { body: accepted } = await call('POST', '/api/v1/cohorts:run', { plan, input: {} })
    await until(async () => (await cohort(accepted)).stages?.[1]?.status === 'running', 60_000)
    assert.equal((await filesOf(accepted)).length, 1)

    await world.on.api.call('POST', `/api/builder/v1/tasks/${accepted.task_id}:cancel`, { key: world.on.key })

    await untilDeleted(accepted)
    assert.equal((await cohort(accepted)).status, 'cancelled')
  })

  it('are kept for a run that takes over their stages', async () => {
    const first = await run(shown, { keep_outputs: true })
    const second = await run(shown, { resume_of: first.cohort_id })

    assert.deepEqual(
      (await cohort(second)).stages.map(({ attempt, status }: AnyBody) => [attempt, status]),
      [
        [0, 'succeeded'],
        [0, 'succeeded'],
      ],
    )
    const [{ result: before }, { result }] = [
      await world.on.task(first.task_id),
      await world.on.task(second.task_id),
    ]
    assert.deepEqual(await download(result.where), await download(before.where))

    // Housekeeping keeps the files that the first task's result names, because that result never expires.
    const { db } = world.on.api.database
    await db
      .updateTable('task_upload')
      .set({ signed_until: new Date(0) })
      .execute()
    await createMaintenanceActivities(world.on.api.services).removeOutlivedFiles()
    assert.equal((await db.selectFrom('task_upload').select('task_id').execute()).length, 0)
    const { result: later } = await world.on.task(second.task_id)
    assert.deepEqual(await download(later.where), await download(before.where))
  })

  it('are available only to their own cohort, and are removed if it fails', async () => {
    const other = await run(shown, { keep_outputs: true })
    const { db } = world.on.api.database
    const { outputs } = await db
      .selectFrom('cohort_stage')
      .select('outputs')
      .where('cohort_id', '=', other.cohort_id)
      .where('name', '=', 'draw')
      .executeTakeFirstOrThrow()
    const foreign = { ...read, stage_id: 'steal', input: { image_url: outputs?.[0]?.address } }
    const plan: PlanRequest = {
      ...shown,
      stages: [draw, foreign],
      edges: [
        {
          from: { stage_id: 'draw', path: '/metadata/seed' },
          to: { stage_id: 'steal', path: '/max_tokens' },
        },
      ],
      outputs: [{ name: 'text', stage_id: 'steal' }],
    }

    const accepted = await run(plan)

    const { status, error } = await world.on.task(accepted.task_id)
    assert.deepEqual([status, error], ['failed', 'image_url names a file that this run does not have'])
    await untilDeleted(accepted)
    const again = await run(plan, { resume_of: accepted.cohort_id })
    assert.equal((await cohort(again)).stages[0].attempt, 1, 'its file is gone, so the stage must run again')
  })
})
