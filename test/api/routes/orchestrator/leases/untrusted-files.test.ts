import assert from 'node:assert/strict'
import { text } from 'node:stream/consumers'
import { request } from 'undici'
import { createMaintenanceActivities } from '../../../../../activities/control/housekeeping/retention.ts'
import * as jobFileRepository from '../../../../../db/repositories/training/job-files.ts'
import { evaluationKey, INCOMING_PUTS, RELAYED } from '../../../../../domain/object-keys.ts'
import type { JobClaim } from '../../../../../schemas/nodes/lease.ts'
import { addLlmVersion, createMerge, versionRef } from '../../../../support/builders/models/merges.ts'
import {
  claimJob,
  createRun,
  fileOf,
  readyDataset,
  RESULT,
  signedPut,
} from '../../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/nodes/signed-node.ts'
import { startS3 } from '../../../../support/servers/s3.ts'
import { skipBecause } from '../../../../support/skip.ts'

const HOUR_MS = 3_600_000
const GOOD = 'good bytes'
/** Exactly as long as the good bytes. */
const EVIL = 'evil bytes'

type Open = () => Promise<{ api: TestApi; close: () => PromiseLike<void> } | { missing: string }>

const openLocal: Open = async () => {
  const api = await startApi()
  return { api, close: () => api[Symbol.asyncDispose]() }
}

const openS3: Open = async () => {
  const s3 = await startS3()
  if ('missing' in s3) return s3
  const { bucket, region, endpoint, accessKeyId, secretAccessKey } = s3.options
  const api = await startApi({
    env: {
      S3_BUCKET: bucket,
      S3_REGION: region,
      S3_ENDPOINT: endpoint,
      S3_ACCESS_KEY_ID: accessKeyId,
      S3_SECRET_ACCESS_KEY: secretAccessKey,
    },
  })
  const close = async () => {
    await api[Symbol.asyncDispose]()
    await s3[Symbol.asyncDispose]()
  }
  return { api, close }
}

for (const [name, open] of Object.entries({ 'a local directory': openLocal, S3: openS3 })) {
  describe(`files from nodes in ${name}`, function () {
    this.timeout(120_000)
    let api: TestApi
    let close: (() => PromiseLike<void>) | undefined
    let accountId: string
    let key: string
    let node: SignedNode

    before(async function () {
      const opened = await open()
      if ('missing' in opened) {
        skipBecause(this, opened.missing)
        return
      }
      ;({ api, close } = opened)
      node = await signedNode(api, 'hostile')
    })
    beforeEach(async () => {
      ;({ accountId, key } = await api.account())
    })
    after(() => close?.())

    const run = async () => createRun(api, key, { dataset_id: await readyDataset(api, accountId) })
    const merge = async () => {
      const models = [
        await addLlmVersion(api, accountId, { model: {} }),
        await addLlmVersion(api, accountId, { model: {} }),
      ]
      return createMerge(api, key, { method: 'slerp', sources: models.map(versionRef), weights: [0.5, 0.5] })
    }
    type Place = Awaited<ReturnType<typeof signedPut>>
    const put = async ({ url, headers }: Place, body: string) => {
      const answer = await request(url, { method: 'PUT', headers, body })
      await answer.body.dump()
      return answer.statusCode
    }
    const weightsFile = (content: string, of = 'weights.bin') => fileOf(of, content)
    const artifact = (token: string, content: string) =>
      signedPut(node, token, { ...weightsFile(content), kind: 'artifact' })
    /** Requests URLs as a node that sends no digest would. */
    const signWithoutDigest = (token: string, kind: 'artifact' | 'checkpoint') => {
      const { sha256: _, ...file } = weightsFile(GOOD)
      return signedPut(node, token, { ...file, kind })
    }
    const complete = (token: string, content: string) =>
      node.post(`/api/v1/leases/${token}:complete`, { artifacts: [weightsFile(content)], ...RESULT })
    const register = (token: string, content: string) => {
      const { content_type: _, ...file } = weightsFile(content)
      return node.post(`/api/v1/leases/${token}:checkpoint`, { ...file, epoch: 1 })
    }
    async function stored(table: 'artifact' | 'job_checkpoint', jobId: string): Promise<string> {
      const { object_key } = await api.database.db
        .selectFrom(table)
        .select('object_key')
        .where('job_id', '=', jobId)
        .executeTakeFirstOrThrow()
      return text((await api.services.objects.get(object_key)).body)
    }

    for (const [what, begin] of Object.entries({ 'a run': run, 'a merge': merge })) {
      it(`keep the content with which ${what} was completed, whatever is PUT before or after completion`, async () => {
        const jobId = await begin()
        const { lease_token: token } = await claimJob(node, jobId)
        const [good, evil] = [await artifact(token, GOOD), await artifact(token, EVIL)]

        assert.equal(await put(good, EVIL), 400, 'the store must check the bytes itself')
        assert.equal((await complete(token, GOOD)).status, 409)
        assert.equal(await put(evil, EVIL), 200)
        assert.equal(
          (await complete(token, GOOD)).status,
          409,
          'the other bytes are not accepted in place of the good ones',
        )
        assert.equal(await put(good, GOOD), 200)
        assert.equal((await complete(token, GOOD)).status, 200)

        for (const target of [good, evil]) await put(target, EVIL)
        await put({ ...good, headers: evil.headers }, EVIL)
        assert.equal(await stored('artifact', jobId), GOOD)
      })
    }

    it('keep the content that was registered as a checkpoint', async () => {
      const jobId = await run()
      const { lease_token: token } = await claimJob(node, jobId, 300)
      const target = await signedPut(node, token, { ...weightsFile(GOOD), kind: 'checkpoint' })
      assert.equal(await put(target, GOOD), 200)

      assert.equal((await register(token, EVIL)).status, 409)
      assert.equal((await register(token, GOOD)).status, 200)
      assert.equal(
        (await register(token, GOOD)).status,
        200,
        'a retry succeeds, because the first response may have been lost',
      )
      assert.notEqual(await put(target, EVIL), 200)

      assert.equal(await stored('job_checkpoint', jobId), GOOD)
      await api.database.db
        .updateTable('lease')
        .set({ expires_at: new Date(0) })
        .execute()
      const { checkpoint } = await claimJob(node, jobId)
      const fetched = await request(String(checkpoint?.url))
      assert.deepEqual([await fetched.body.text(), checkpoint?.filename], [GOOD, 'weights.bin'])
    })

    it('are verified by the platform when their node sent no digest, and the node cannot change them afterwards', async () => {
      const [lying, jobId] = [await run(), await run()]
      const liar = await claimJob(node, lying)
      const wrong = await signWithoutDigest(liar.lease_token, 'artifact')
      assert.equal(await put(wrong, EVIL), 200)
      const refused = await complete(liar.lease_token, GOOD)
      assert.deepEqual([refused.status, /SHA-256/.test(refused.text)], [409, true])

      const { lease_token: token }: JobClaim = await claimJob(node, jobId)
      const checkpoint = await signWithoutDigest(token, 'checkpoint')
      const file = await signWithoutDigest(token, 'artifact')
      for (const target of [checkpoint, file]) assert.equal(await put(target, GOOD), 200)
      assert.equal((await register(token, GOOD)).status, 200)
      await put(checkpoint, EVIL)
      assert.equal((await register(token, GOOD)).status, 200)
      assert.equal((await complete(token, GOOD)).status, 200)
      for (const target of [checkpoint, file]) await put(target, EVIL)

      assert.equal(await stored('artifact', jobId), GOOD)
      assert.equal(await stored('job_checkpoint', jobId), GOOD)
    })

    it('are deleted along with their run, including files that arrive later', async () => {
      const { db } = api.database
      const { objects } = api.services
      const jobId = await run()
      const { lease_token: token } = await claimJob(node, jobId)
      const places = [await artifact(token, GOOD), await artifact(token, EVIL)]
      const path = `/api/builder/v1/training/runs/${jobId}`
      assert.equal((await api.call('POST', `${path}/cancel`, { key })).status, 200)
      assert.equal((await api.call('DELETE', path, { key })).status, 204)
      // A gateway accepts no file for a deleted run, even under an active lease.
      await db
        .updateTable('lease')
        .set({ state: 'active', closed_at: null })
        .where('token', '=', token)
        .execute()

      const folder = jobFileRepository.jobFolder({ account_id: accountId, id: jobId })
      if (name === 'S3')
        assert.equal(await put(places[0]!, GOOD), 200, 'the bucket knows nothing about leases')
      else assert.equal(await put(places[1]!, EVIL), 403)
      const late = jobFileRepository.attemptFile(
        { account_id: accountId, id: jobId },
        { attempt: 1, kind: 'artifact', filename: 'f' },
      )
      const lost = `${INCOMING_PUTS}${jobId}`
      const relayed = `${RELAYED}${accountId}/a-cohort/an-edge/1`
      const vectors = evaluationKey(jobId, 'source')
      for (const object of [late, lost, relayed, vectors])
        await objects.put(object, Buffer.from('x'), { contentType: 'text/plain' })

      const sweep = (now: Date) =>
        createMaintenanceActivities({ ...api.services, now: () => now }).removeOutlivedFiles()
      await sweep(new Date())
      assert.ok(await objects.head(late), 'an upload may still be under way')
      assert.ok(await objects.head(lost))
      await db
        .updateTable('training_run')
        .set({ completed_at: new Date(Date.now() - 25 * HOUR_MS) })
        .where('id', '=', jobId)
        .execute()
      await sweep(new Date(Date.now() + 25 * HOUR_MS))
      for (const object of [lost, relayed, vectors]) assert.equal(await objects.head(object), undefined)
      for await (const { key: leftover } of objects.list(folder)) assert.fail(`${leftover} is left`)
    })

    if (name === 'S3') return
    it('are refused by the gateway once the lease has ended or the node has been removed', async () => {
      const first = await claimJob(node, await run())
      const target = await artifact(first.lease_token, GOOD)
      assert.equal(await put(target, GOOD), 200)
      assert.equal((await complete(first.lease_token, GOOD)).status, 200)
      assert.equal(await put(target, GOOD), 403)

      const removed = await signedNode(api, 'removed')
      const { lease_token: token } = await claimJob(removed, await run())
      const late = await signedPut(removed, token, { ...weightsFile(GOOD), kind: 'artifact' })
      await api.database.db
        .updateTable('node')
        .set({ status: 'removed' })
        .where('id', '=', removed.nodeId)
        .execute()
      assert.equal(await put(late, GOOD), 403)
    })
  })
}
