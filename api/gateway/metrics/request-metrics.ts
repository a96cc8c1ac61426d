import { BoundedLabel } from '../../../platform/metrics/labels.ts'
import type { Metrics, Recorder } from '../../../platform/metrics/metrics.ts'
import type { ErrorCode } from '../../../schemas/errors.ts'
import type { Operation } from '../../http/operation.ts'

/** An HTTP request whose response is complete. */
export interface EndedRequest {
  method: string
  /** Undefined for requests that match no route. */
  operation: Operation | undefined
  status: number
  /** The code of the error response. */
  code: string | undefined
  accountId: string | undefined
  seconds: number
}

/** The methods that have their own series; clients choose all others freely. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
const OTHER_METHOD = '_OTHER'
const MAX_ACCOUNTS = 100
/** The errors of requests that were valid but not admitted. */
const REFUSALS: ReadonlySet<string> = new Set([
  'rate_limited',
  'storage_quota_exceeded',
  'task_quota_exceeded',
  'training_quota_exceeded',
  'model_cold',
  'no_capacity',
  'operator_kill_switch',
] satisfies ErrorCode[])

/** Measures the HTTP requests of a gateway. */
export class RequestMetrics {
  readonly #metrics: Metrics
  readonly #accounts = new BoundedLabel(MAX_ACCOUNTS)
  /** The series of each route, by status or error code. A lookup by attributes would cost more than the rest. */
  readonly #routes = new Map<Operation, Map<number | string, Recorder>>()
  #active = 0

  constructor(metrics: Metrics) {
    this.#metrics = metrics
    metrics.onScrape((observe) => observe('http.server.active_requests', this.#active))
  }

  begin(): void {
    this.#active += 1
  }

  end(request: EndedRequest): void {
    this.#active -= 1
    const { operation, status, code, accountId, seconds } = request
    let series: Recorder | undefined
    if (operation) {
      let ofRoute = this.#routes.get(operation)
      if (!ofRoute) this.#routes.set(operation, (ofRoute = new Map()))
      series = ofRoute.get(code ?? status)
      if (!series) ofRoute.set(code ?? status, (series = this.#seriesOf(request)))
    }
    ;(series ?? this.#seriesOf(request)).record(seconds)
    if (code === undefined || accountId === undefined || !REFUSALS.has(code)) return
    const attributes = { account_id: this.#accounts.of(accountId), reason: code }
    this.#metrics.counter('hearth.admission.refusals', attributes).add(1)
  }

  #seriesOf({ method, operation, status, code }: EndedRequest): Recorder {
    return this.#metrics.histogram('http.server.request.duration', {
      'http.request.method': operation?.route.method ?? (METHODS.has(method) ? method : OTHER_METHOD),
      'http.route': operation?.path,
      'http.response.status_code': status,
      'error.type': code,
    })
  }
}
