import * as stageFileRepository from '../../../../db/repositories/cohorts/stage-files.ts'
import * as leaseRepository from '../../../../db/repositories/nodes/leases.ts'
import { invalid } from '../../../../domain/errors.ts'
import { INPUT_URL_TTL_S, MAX_INPUT_BYTES } from '../../../../schemas/inference-task.ts'
import { InputFiles } from '../../../../schemas/nodes/lease.ts'
import { route } from '../../../http/route.ts'
import { signUploads } from '../../../inference/input-files.ts'
import { LeaseParams } from './params.ts'
import { leaseLost, leaseNotFound } from './work.ts'

export const resolveInputFiles = route({
  operationId: 'resolveInputFiles',
  summary: "Get URLs for the files that a stage's input names",
  method: 'POST',
  path: '/leases/{lease_token}:files',
  auth: 'node-signature',
  params: LeaseParams,
  body: InputFiles,
  success: { status: 200, schema: InputFiles },
  errors: ['not_found', 'conflict'],

  /** Returns the account's uploads and files from the same cohort; leaves out all other addresses. */
  async handler({ caller, params, body }, { db, objects }) {
    const lease = await leaseRepository.findLease(db, { token: params.lease_token, nodeId: caller.nodeId })
    if (!lease) throw leaseNotFound()
    if (lease.state !== 'active') throw leaseLost(lease)
    const made = lease.kind === 'stage' ? await stageFileRepository.filesForStage(db, lease) : []
    const known = body.files.flatMap(({ field, url }) => {
      const file = made.find(({ address }) => address === url)
      return file ? [{ field, file }] : []
    })
    const tooLarge = known.find(({ file }) => file.size_bytes > MAX_INPUT_BYTES)
    if (tooLarge) {
      const { field, file } = tooLarge
      const message = `${field}: the file has ${file.size_bytes} bytes; the limit for an input is ${MAX_INPUT_BYTES}`
      throw invalid(['body', 'files'], message)
    }
    const signed = known.map(async ({ field, file }) => {
      const { url } = await objects.signGet(file.object_key, { expiresInS: INPUT_URL_TTL_S })
      return { field, url }
    })
    const uploads = await signUploads({ db, objects }, lease.account_id, body.files)
    return { files: [...(await Promise.all(signed)), ...uploads] }
  },
})
