import * as leaseRepository from '../../../../db/repositories/nodes/leases.ts'
import * as modelOrderRepository from '../../../../db/repositories/nodes/model-orders.ts'
import { ApiError } from '../../../../domain/errors.ts'
import type { HubFileRef } from '../../../../domain/hub/files.ts'
import type { Services } from '../../../services.ts'

/** Long enough to download the largest models over slow connections. */
const URL_TTL_MS = 24 * 3_600_000
const CONTEXT = 'hub-file'

/** The node that a URL is for, and the job that the node is running or the model that it may load. */
export type HubFileReader = { nodeId: string } & ({ jobId: string } | { modelKey: string })

type Grant = HubFileRef & { expires: number; reader: HubFileReader }

/**
 * Returns the URL of a hub file for a node, on the hub itself (`from_hub`) or on a gateway. Files that need the
 * platform's token come from a gateway, so that the node never sees the token. The URL is its own credential, valid
 * while the reader needs the file.
 */
export function hubFileUrl(
  { hub, gateway, secretBox, now }: Pick<Services, 'hub' | 'gateway' | 'secretBox' | 'now'>,
  ref: HubFileRef,
  reader: HubFileReader,
): { url: string; from_hub?: true } {
  if (!hub.hasToken) return { url: hub.fileUrl(ref.repoId, ref.revision, ref.path), from_hub: true }
  const grant: Grant = { ...ref, expires: now().getTime() + URL_TTL_MS, reader }
  const sealed = secretBox.seal(JSON.stringify(grant), CONTEXT).toString('base64url')
  return { url: `${gateway.baseUrl}/api/v1/hub-files/${sealed}` }
}

/** Returns the file that a URL grants access to; throws `forbidden` if the URL is forged or expired. */
export function openHubFileGrant(
  { secretBox, now }: Pick<Services, 'secretBox' | 'now'>,
  text: string,
): Grant {
  let grant: Omit<Grant, 'reader'> & { reader?: HubFileReader }
  try {
    grant = JSON.parse(secretBox.open(Buffer.from(text, 'base64url'), CONTEXT).toString()) as typeof grant
  } catch (cause) {
    throw new ApiError('forbidden', 'this URL was not issued by this platform', { cause })
  }
  if (now().getTime() >= grant.expires) throw new ApiError('forbidden', 'this URL has expired')
  // Gateways before 0.12 issued URLs without a reader.
  if (!grant.reader) throw over()
  return { ...grant, reader: grant.reader }
}

const over = () => new ApiError('forbidden', 'the node that this URL was issued to no longer needs the file')

/** Throws `forbidden` if a URL's node was removed, or no longer has the job or model. */
export async function assertStillNeeded(db: Services['db'], reader: HubFileReader): Promise<void> {
  const { nodeId } = reader
  const isNeeded =
    'jobId' in reader
      ? await leaseRepository.isAtWork(db, { nodeId, jobId: reader.jobId })
      : await modelOrderRepository.modelClaimOf(db, nodeId, { model_key: reader.modelKey })
  if (!isNeeded) throw over()
}
