import { Client, type ClientOptions, Metadata, type ServiceError } from '@grpc/grpc-js'
import proto from '@temporalio/proto'
import { type Config, required } from '../../platform/config.ts'
import { channelCredentials } from '../../platform/temporal.ts'

export const WORKFLOW_SERVICE = 'temporal.api.workflowservice.v1.WorkflowService'

/** Slightly more than Temporal's own limit for one message. */
export const MAX_MESSAGE_BYTES = 8 * 1024 * 1024
const RESPONSE_TIMEOUT_MS = 10_000

const OPTIONS: ClientOptions = {
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
  'grpc.keepalive_time_ms': 30_000,
  'grpc.keepalive_timeout_ms': 10_000,
}

/** A call to Temporal in flight. */
export interface UpstreamCall {
  readonly answer: Promise<Buffer>
  cancel(): void
}

/** The gate's connection to Temporal, for raw calls of the workflow service. */
export class Upstream {
  readonly namespace: string
  readonly #client: Client
  readonly #metadata = new Metadata()

  constructor(config: Config) {
    this.namespace = config.TEMPORAL_NAMESPACE
    const { credentials, options } = channelCredentials(config)
    this.#client = new Client(required(config, 'TEMPORAL_ADDRESS'), credentials, { ...OPTIONS, ...options })
    this.#metadata.set('temporal-namespace', this.namespace)
    if (config.TEMPORAL_API_KEY) this.#metadata.set('authorization', `Bearer ${config.TEMPORAL_API_KEY}`)
  }

  /** `answer` rejects with a `ServiceError`, but never before this method returns. */
  call(
    method: string,
    request: Buffer,
    deadline: Date | number = Date.now() + RESPONSE_TIMEOUT_MS,
  ): UpstreamCall {
    const { promise: answer, resolve, reject } = Promise.withResolvers<Buffer>()
    const call = this.#client.makeUnaryRequest(
      `/${WORKFLOW_SERVICE}/${method}`,
      asBytes,
      asBytes,
      request,
      this.#metadata,
      { deadline },
      (err: ServiceError | null, value?: Buffer) => (err ? reject(err) : resolve(value ?? Buffer.alloc(0))),
    )
    return { answer, cancel: () => call.cancel() }
  }

  /** Fails an attempt at an activity that was not handed to a node; its workflow places it again. */
  async failTask(taskToken: Buffer, message: string): Promise<void> {
    const applicationFailureInfo = { type: 'not_handed_over', nonRetryable: false }
    const failure = { message, source: 'hearth', applicationFailureInfo }
    const request = { taskToken, failure, identity: 'gate', namespace: this.namespace }
    const bytes = RespondActivityTaskFailedRequest.encode(request).finish()
    await this.call('RespondActivityTaskFailed', Buffer.from(bytes)).answer
  }

  close(): void {
    this.#client.close()
  }
}

const { RespondActivityTaskFailedRequest } = proto.temporal.api.workflowservice.v1

export const asBytes = (bytes: Buffer): Buffer => bytes
