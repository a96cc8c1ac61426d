import * as leaseRepository from '../../../../db/repositories/nodes/leases.ts'
import { UploadUrls, UploadUrlsRequest } from '../../../../schemas/nodes/lease.ts'
import { route } from '../../../http/route.ts'
import { workOf } from './kinds.ts'
import { LeaseParams } from './params.ts'
import { leaseNotFound, leaseLost } from './work.ts'

const URL_TTL_S = 3_600
const OCTETS = 'application/octet-stream'

export const signLeaseUrls = route({
  operationId: 'signLeaseUrls',
  summary: 'Get URLs to upload files',
  method: 'POST',
  path: '/leases/{lease_token}:urls',
  auth: 'node-signature',
  params: LeaseParams,
  body: UploadUrlsRequest,
  success: { status: 200, schema: UploadUrls },
  errors: ['not_found', 'conflict'],

  async handler({ caller, params, body }, { db, objects, now }) {
    const lease = await leaseRepository.findLease(db, { token: params.lease_token, nodeId: caller.nodeId })
    if (!lease) throw leaseNotFound()
    if (lease.state !== 'active') throw leaseLost(lease)

    const { fileKey, noteSigned } = workOf(lease)
    await noteSigned?.(db, lease, new Date(now().getTime() + 1_000 * URL_TTL_S))
    const sign = async (file: UploadUrlsRequest['files'][number]) => {
      const contentType = file.content_type ?? OCTETS
      const signed = await objects.signPut(fileKey(lease, file), {
        expiresInS: URL_TTL_S,
        contentType,
        ...(file.sha256 !== undefined && { sha256: file.sha256 }),
      })
      return {
        filename: file.filename,
        url: signed.url,
        content_type: contentType,
        headers: signed.headers,
        expires_at: signed.expiresAt.toISOString(),
      }
    }
    return { files: await Promise.all(body.files.map(sign)) }
  },
})
