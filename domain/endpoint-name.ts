import { isReserved } from './actions/reserved.ts'
import { isHubName } from './hub/names.ts'
import { slugOf } from './slug.ts'
import { isUuid } from './uuid.ts'

const MAX_LENGTH = 80

/**
 * Returns names for the endpoint of a job, in the order to try them. The first is a slug of the job's name; the second
 * adds the end of the job's id, which makes it unique.
 */
export function endpointNamesOf(jobName: string, jobId: string): [string, string] {
  const slug = slugOf(jobName, MAX_LENGTH)
  const isFree = slug !== '' && !isUuid(slug) && !isHubName(slug) && !isReserved(slug)
  const name = isFree ? slug : `model-${slug}`.replace(/-$/, '')
  // The last digits of a UUIDv7 are random.
  return [name, `${name}-${jobId.slice(-8)}`]
}
