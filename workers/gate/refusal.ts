import { status } from '@grpc/grpc-js'

/** The reason why the gate refuses a call, as returned to the caller. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: status

  constructor(code: status, message: string) {
    super(message)
    this.code = code
  }
}

export const removed = (): Refusal => new Refusal(status.UNAUTHENTICATED, 'this node has been removed')

export const denied = (message: string): Refusal => new Refusal(status.PERMISSION_DENIED, message)
