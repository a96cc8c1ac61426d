import * as jobFileRepository from '../../../../db/repositories/training/job-files.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { DownloadUrls, DownloadUrlsQuery, TrainingRunParams } from '../../../../schemas/training-run.ts'
import { route } from '../../../http/route.ts'
import { requireRun } from './require-run.ts'

const DEFAULT_URL_TTL_S = 3_600

export const signDownloads = route({
  operationId: 'signDownloads',
  summary: 'Get URLs to download the files of a finished model',
  method: 'GET',
  path: '/training/runs/{run_id}/artifacts/download-urls',
  auth: 'api-key',
  params: TrainingRunParams,
  query: DownloadUrlsQuery,
  success: { status: 200, schema: DownloadUrls },
  errors: ['not_found'],

  async handler({ caller, params, query: { files, expiration = DEFAULT_URL_TTL_S } }, { db, objects }) {
    const run = await requireRun(db, caller.accountId, params.run_id)
    const artifacts = await jobFileRepository.listArtifacts(db, run.id)
    const wanted = files?.split(',').map((name) => name.trim())
    const absent = wanted?.filter((name) => !artifacts.some(({ filename }) => filename === name)) ?? []
    if (absent.length > 0) {
      throw new ApiError('not_found', `this run has no artifact ${absent.join(', ').slice(0, 200)}`)
    }

    const chosen = artifacts.filter(({ filename }) => wanted?.includes(filename) ?? true)
    const sign = async ({ filename, size_bytes, sha256, object_key }: (typeof chosen)[number]) => {
      const { url } = await objects.signGet(object_key, { expiresInS: expiration, filename })
      return { filename, size_bytes, sha256, download_url: url, expires_in_seconds: expiration }
    }
    return { job_id: run.id, download_urls: await Promise.all(chosen.map(sign)) }
  },
})
