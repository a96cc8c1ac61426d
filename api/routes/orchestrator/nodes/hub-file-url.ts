import { modelClaimOf } from '../../../../db/repositories/nodes/model-orders.ts'
import { isAtWork } from '../../../../db/repositories/training/leases.ts'
import { ApiError } from '../../../../domain/errors.ts'
import type { HubFileRef } from '../../../../domain/hub/files.ts'
import type { Services } from '../../../services.ts'

/** Long enough for the largest models over slow lines. */
const LIFETIME_MS = 24 * 3_600_000
const CONTEXT = 'hub-file'

/** The node that an address is for, and what it needs the file for: a job it has at work, or a model it may load. */
export type HubFileReader = { nodeId: string } & ({ jobId: string } | { modelKey: string })

type Grant = HubFileRef & { expires: number; reader: HubFileReader }

/**
 * Where a node fetches a hub file: from the hub itself, or, so that it never sees the platform's token, from a gateway
 * that shows it. The address carries its own permission, for as long as its reader has that need.
 */
export function hubFileUrl(
  { hub, gateway, secretBox, now }: Pick<Services, 'hub' | 'gateway' | 'secretBox' | 'now'>,
  ref: HubFileRef,
  reader: HubFileReader,
): string {
  if (!hub.hasToken) return hub.fileUrl(ref.repoId, ref.revision, ref.path)
  const grant: Grant = { ...ref, expires: now().getTime() + LIFETIME_MS, reader }
  return `${gateway.baseUrl}/api/v1/hub-files/${secretBox.seal(JSON.stringify(grant), CONTEXT).toString('base64url')}`
}

/** The file that such an address allows; throws `forbidden` when it is forged or expired. */
export function openHubFileGrant(
  { secretBox, now }: Pick<Services, 'secretBox' | 'now'>,
  text: string,
): Grant {
  let grant: Omit<Grant, 'reader'> & { reader?: HubFileReader }
  try {
    grant = JSON.parse(secretBox.open(Buffer.from(text, 'base64url'), CONTEXT).toString()) as typeof grant
  } catch (cause) {
    throw new ApiError('forbidden', 'this address is not one of ours', { cause })
  }
  if (now().getTime() >= grant.expires) throw new ApiError('forbidden', 'this address has expired')
  // Gateways before 0.12 bound it to nobody.
  if (!grant.reader) throw over()
  return { ...grant, reader: grant.reader }
}

const over = () =>
  new ApiError('forbidden', 'the node that this address was given to has no need of the file any more')

/** Throws `forbidden` when the node of an address was removed, or has no such job or model any more. */
export async function assertStillNeeded(db: Services['db'], reader: HubFileReader): Promise<void> {
  const { nodeId } = reader
  const isNeeded =
    'jobId' in reader
      ? await isAtWork(db, { nodeId, jobId: reader.jobId })
      : await modelClaimOf(db, nodeId, { model_key: reader.modelKey })
  if (!isNeeded) throw over()
}
