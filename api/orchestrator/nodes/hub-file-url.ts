import type { HubFileRef } from '../../../domain/hub-files.ts'
import { ApiError } from '../../../domain/errors.ts'
import type { Services } from '../../services.ts'

/** Long enough for the largest models over slow lines. */
const LIFETIME_MS = 24 * 3_600_000
const CONTEXT = 'hub-file'

/**
 * Where a node fetches a hub file: from the hub itself, or, so that it never sees the platform's token, from a gateway
 * that shows it. The address carries its own permission.
 */
export function hubFileUrl(
  { hub, gateway, secretBox, now }: Pick<Services, 'hub' | 'gateway' | 'secretBox' | 'now'>,
  ref: HubFileRef,
): string {
  if (!hub.hasToken) return hub.fileUrl(ref.repoId, ref.revision, ref.path)
  const grant = JSON.stringify({ ...ref, expires: now().getTime() + LIFETIME_MS })
  return `${gateway.baseUrl}/api/v1/hub-files/${secretBox.seal(grant, CONTEXT).toString('base64url')}`
}

/** The file that such an address allows; throws `forbidden` when it is forged or expired. */
export function openHubFileGrant(
  { secretBox, now }: Pick<Services, 'secretBox' | 'now'>,
  text: string,
): HubFileRef {
  let grant: HubFileRef & { expires: number }
  try {
    grant = JSON.parse(secretBox.open(Buffer.from(text, 'base64url'), CONTEXT).toString()) as typeof grant
  } catch (cause) {
    throw new ApiError('forbidden', 'this address is not one of ours', { cause })
  }
  if (now().getTime() >= grant.expires) throw new ApiError('forbidden', 'this address has expired')
  return grant
}
