import type { Kysely, Transaction } from 'kysely'
import type { Database } from '../../../../db/tables.ts'
import type { LeaseRow } from '../../../../db/tables/nodes.ts'
import { ApiError } from '../../../../domain/errors.ts'
import type { LeaseFile } from '../../../../domain/object-keys.ts'
import type { StatusDetail } from '../../../../schemas/inference-task.ts'
import type { CompleteLease, FailLease, RoomWait } from '../../../../schemas/lease.ts'
import type { Services } from '../../../services.ts'

/** The input of a step on the work behind a lease, within the transaction that also closes the lease. */
export interface LeaseStep<B, Locked = unknown> {
  trx: Transaction<Database>
  /** The result of `lock`. */
  locked: Locked
  lease: LeaseRow
  body: B
  services: Services
  /** Runs an action once the transaction is committed. */
  afterCommit: (action: () => void) => void
}

/**
 * The rules of a kind of work. A step locks the row of its subject; the lease itself is checked
 * and closed around the step. `Checked` is what the check of a completion has made for it.
 */
export interface LeaseWork<Checked = void, Locked = unknown> {
  /** Locks the row behind the lease, always before the lease itself. */
  lock(trx: Transaction<Database>, lease: LeaseRow): Promise<Locked>
  /** Returns the key of a file that is PUT under this lease. */
  fileKey: (lease: LeaseRow, file: LeaseFile) => string
  /** Records that files can be PUT under this lease until a time. */
  noteSigned?: (db: Kysely<Database>, lease: LeaseRow, until: Date) => Promise<void>
  /** Records how far the work is. Late and repeated reports are ignored. */
  progress?: (services: Services, lease: LeaseRow, detail: StatusDetail) => Promise<void>
  /** Records that the work waits for room, or with null that it no longer does. */
  waits?: (services: Services, lease: LeaseRow, kind: RoomWait | null) => Promise<void>
  /** Tells whether the work is paused, so that its node is to stop it after a checkpoint. */
  isPaused?: (services: Services, lease: LeaseRow) => Promise<boolean>
  /** Checks the stored files, before anything is locked. */
  check?(step: Omit<LeaseStep<CompleteLease>, 'trx' | 'locked' | 'afterCommit'>): Promise<Checked>
  complete(step: LeaseStep<CompleteLease, Locked>, checked: Checked): Promise<void>
  fail(step: LeaseStep<FailLease, Locked>): Promise<void>
}

const WHY: Record<LeaseRow['state'], string> = {
  active: 'this lease has run out; renew it first, if it has not been taken over',
  completed: 'this lease has been completed already',
  failed: 'this lease has been given back already',
  revoked: 'the work behind this lease was cancelled',
  expired: 'this lease ran out and the work went to another attempt',
}

/** The error for a node whose lease is no longer in force. */
export const leaseLost = ({ state }: Pick<LeaseRow, 'state'>): ApiError =>
  new ApiError('conflict', WHY[state], { details: { state } })

/** The error for a token that was never issued to this node. */
export const leaseNotFound = (): ApiError =>
  new ApiError('not_found', 'this node was given no lease with this token')
