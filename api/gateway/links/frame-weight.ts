import { LinkProtocolError } from '../../../platform/link/codec.ts'
import { weighJson } from '../../http/bodies/json-weight.ts'

/** Shorter JSON can't contain enough names to take a millisecond to parse. */
const WEIGHED_BYTES = 8 * 1024
/** Reports have about forty distinct names; list entries repeat some of them. */
const MAX_FRAME_NAMES = 1_000
const MAX_FRAME_UNLIKE = 5_000

/**
 * Throws `LinkProtocolError` for JSON that takes many times as long to parse as a report of its size. A node may belong
 * to a tenant, and its link's rate limit only counts bytes.
 */
export function checkFrameJson(json: Buffer): void {
  if (json.length < WEIGHED_BYTES) return
  const { names, unlike, isTooDeep } = weighJson(json)
  if (names > MAX_FRAME_NAMES || unlike > MAX_FRAME_UNLIKE)
    throw new LinkProtocolError('the frame has too many different member names')
  if (isTooDeep) throw new LinkProtocolError('the frame is nested too deeply')
}
