import { LinkProtocolError } from '../../../platform/link/codec.ts'
import { weighJson } from '../../http/json-weight.ts'

/** Shorter JSON cannot hold enough names to cost a millisecond. */
const WEIGHED_BYTES = 8 * 1024
/** Reports have some forty names, of which the entries of a list repeat a few. */
const MAX_FRAME_NAMES = 1_000
const MAX_FRAME_UNLIKE = 5_000

/**
 * Throws `LinkProtocolError` for JSON that takes many times as long to parse as a report of its size. A node may belong to
 * a tenant, and the pace of its link counts bytes.
 */
export function checkFrameJson(json: Buffer): void {
  if (json.length < WEIGHED_BYTES) return
  const { names, unlike, isTooDeep } = weighJson(json)
  if (names > MAX_FRAME_NAMES || unlike > MAX_FRAME_UNLIKE)
    throw new LinkProtocolError('a frame with too many names')
  if (isTooDeep) throw new LinkProtocolError('a frame that is nested too deeply')
}
