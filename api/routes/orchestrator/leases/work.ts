import type { Kysely, Transaction } from 'kysely'
import type { Database } from '../../../../db/tables.ts'
import type { LeaseRow } from '../../../../db/tables/nodes.ts'
import { ApiError } from '../../../../domain/errors.ts'
import type { LeaseFile } from '../../../../domain/object-keys.ts'
import type { StatusDetail } from '../../../../schemas/inference-task.ts'
import type { CompleteLease, FailLease, StorageWait } from '../../../../schemas/nodes/lease.ts'
import type { Services } from '../../../services.ts'

/** The input of a step on the work behind a lease, within the transaction that also closes the lease. */
export interface LeaseStep<B, Locked = unknown> {
  trx: Transaction<Database>
  /** The result of `lock`. */
  locked: Locked
  lease: LeaseRow
  body: B
  services: Services
  /** Defers an action until the transaction has committed. */
  afterCommit: (action: () => void) => void
}

/**
 * The rules of a kind of work. A step locks the row of its subject; the caller checks and closes the lease itself
 * around the step. `Checked` is the result of `check`, which `complete` receives.
 */
export interface LeaseWork<Checked = void, Locked = unknown> {
  /** Locks the row behind the lease, always before the lease itself. */
  lock(trx: Transaction<Database>, lease: LeaseRow): Promise<Locked>
  /** Returns the key of a file that is PUT under this lease. */
  fileKey: (lease: LeaseRow, file: LeaseFile) => string
  /** Records the time until which files can be PUT under this lease. */
  noteSigned?: (db: Kysely<Database>, lease: LeaseRow, until: Date) => Promise<void>
  /** Records the work's progress. Late and repeated reports are ignored. */
  progress?: (services: Services, lease: LeaseRow, detail: StatusDetail) => Promise<void>
  /** Records that the work is waiting for storage space, or, with null, that it no longer is. */
  waits?: (services: Services, lease: LeaseRow, kind: StorageWait | null) => Promise<void>
  /** Returns whether the work is paused, in which case its node must stop it after a checkpoint. */
  isPaused?: (services: Services, lease: LeaseRow) => Promise<boolean>
  /** Checks the stored files before anything is locked. */
  check?(step: Omit<LeaseStep<CompleteLease>, 'trx' | 'locked' | 'afterCommit'>): Promise<Checked>
  complete(step: LeaseStep<CompleteLease, Locked>, checked: Checked): Promise<void>
  fail(step: LeaseStep<FailLease, Locked>): Promise<void>
}

const WHY: Record<LeaseRow['state'], string> = {
  active: 'this lease has expired; renew it first, unless another attempt has taken over',
  completed: 'this lease is already completed',
  failed: 'this lease was already returned without a result',
  revoked: 'the work behind this lease was cancelled',
  expired: 'this lease expired and the work went to another attempt',
}

/** The error for a node whose lease is no longer in force. */
export const leaseLost = ({ state }: Pick<LeaseRow, 'state'>): ApiError =>
  new ApiError('conflict', WHY[state], { details: { state } })

/** The error for a token that was never issued to this node. */
export const leaseNotFound = (): ApiError =>
  new ApiError('not_found', 'this node has no lease with this token')
