import { ApiError } from '../../../domain/errors.ts'
import type { Middleware } from './middleware.ts'

/** Rejects a conditional write without `If-Match`. */
export const requireIfMatch: Middleware = ({ state: { req } }, next) => {
  if (req.headers['if-match'] !== undefined) return next()
  throw new ApiError('precondition_required', 'send If-Match with the ETag of what you read')
}
