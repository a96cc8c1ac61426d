import assert from 'node:assert/strict'
import type { NewCohortStage } from '../../../../../db/tables/cohorts.ts'
import { fileAddress, type StageFile } from '../../../../../domain/cohorts/stages/files.ts'
import { newId } from '../../../../../domain/ids.ts'
import { MAX_INPUT_BYTES } from '../../../../../schemas/inference-task.ts'
import { buildCohort, buildStage, leaseStage } from '../../../../support/builders/cohorts/cohorts.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/nodes/signed-node.ts'

describe("files that a stage's input refers to", () => {
  let api: TestApi
  let node: SignedNode
  before(async () => {
    api = await startApi()
    node = await signedNode(api)
  })
  after(() => api[Symbol.asyncDispose]())

  /** Builds a cohort whose first stage has produced a file, and whose second stage runs on a node. */
  const build = async ({
    size_bytes = 10,
    ...made
  }: Partial<NewCohortStage> & { size_bytes?: number } = {}) => {
    const { db } = api.database
    const { accountId } = await api.account()
    const cohort = await buildCohort(db, accountId)
    const id = newId()
    const file: StageFile = {
      address: fileAddress(id, 0),
      filename: 'image.png',
      object_key: `tasks/${accountId}/${id}/1/output/image.png`,
      content_type: 'image/png',
      size_bytes,
      modality: 'image',
    }
    await buildStage(db, cohort, { id, status: 'succeeded', outputs: JSON.stringify([file]), ...made })
    const stage = await buildStage(db, cohort)
    return { url: file.address, file, stage, token: await leaseStage(db, stage, node.nodeId) }
  }
  const resolve = (token: string, ...urls: string[]) =>
    node.post(`/api/v1/leases/${token}:files`, {
      files: urls.map((url, i) => ({ field: `field_${i}`, url })),
    })

  it("are resolved for the stage's own cohort only; other URLs are omitted", async () => {
    const [own, other] = [await build(), await build()]

    const { status, body } = await resolve(own.token, 'https://hearth.example/a.png', other.url, own.url)

    assert.equal(status, 200)
    assert.deepEqual(
      body.files.map(({ field, url }: { field: string; url: string }) => [
        field,
        decodeURIComponent(url).includes(own.file.object_key),
      ]),
      [['field_2', true]],
    )
  })

  it('are not resolved for a stage that is being repeated, and are rejected beyond the input limit', async () => {
    const again = await build({ status: 'running' })
    assert.deepEqual((await resolve(again.token, again.url)).body.files, [])

    const large = await build({ size_bytes: MAX_INPUT_BYTES + 1 })
    const { status, body } = await resolve(large.token, large.url)
    assert.equal(status, 422)
    assert.match(
      JSON.stringify(body),
      /field_0: the file has 52428801 bytes; the limit for an input is 52428800/,
    )
  })

  it('are resolved only for the holder of an active lease', async () => {
    const { token, url, stage } = await build()
    const stranger = await signedNode(api)

    const foreign = await stranger.post(`/api/v1/leases/${token}:files`, { files: [{ field: 'a', url }] })
    await api.database.db
      .updateTable('lease')
      .set({ state: 'revoked', closed_at: new Date() })
      .where('subject_id', '=', stage.id)
      .execute()

    assert.deepEqual([foreign.status, (await resolve(token, url)).status], [404, 409])
  })
})
