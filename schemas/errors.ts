/**
 * Every `error.code` that the platform can return, with its HTTP status. `docs/status-codes.md` says what to do about
 * each.
 */
export const ERROR_STATUS = {
  bad_request: 400,
  unauthenticated: 401,
  account_mismatch: 403,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  conflict: 409,
  idempotency_key_reused: 409,
  gone: 410,
  precondition_failed: 412,
  payload_too_large: 413,
  unsupported_media_type: 415,
  range_not_satisfiable: 416,
  validation_failed: 422,
  precondition_required: 428,
  rate_limited: 429,
  storage_quota_exceeded: 429,
  task_quota_exceeded: 429,
  training_quota_exceeded: 429,
  internal: 500,
  model_cold: 503,
  no_capacity: 503,
  operator_kill_switch: 503,
  unavailable: 503,
} as const

export type ErrorCode = keyof typeof ERROR_STATUS
