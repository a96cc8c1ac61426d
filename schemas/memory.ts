import Type, { type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, Vocabulary } from './common.ts'
import { Formed, Name } from './forms.ts'

/** The maximum number of characters in one entry. */
export const MAX_MEMORY = 8_000
/** The maximum number of entries in one import request. */
export const MAX_IMPORTED = 500

export const MemoryAccess = Vocabulary('read', 'write')
export type MemoryAccess = Static<typeof MemoryAccess>

/**
 * The outcome of a task's memory. It is `attached` until the task runs, then `given`, or `empty` if there was nothing
 * to add. `denied` means that its key has no grant, `unavailable` that it could not be read. `refused` means that the
 * model rejected the request with the memory and then got the request without it.
 */
export const MemoryOutcome = Vocabulary('attached', 'given', 'empty', 'denied', 'unavailable', 'refused')
export type MemoryOutcome = Static<typeof MemoryOutcome>

/**
 * Why a task's memory was `denied` (`no_grant`, `key_revoked`, `disabled`) or `unavailable` (`no_snapshot`; `too_late`:
 * not read within two seconds; `unreadable`: reading or decrypting it failed).
 */
export const MemoryReason = Vocabulary(
  'no_grant',
  'key_revoked',
  'disabled',
  'no_snapshot',
  'too_late',
  'unreadable',
)
export type MemoryReason = Static<typeof MemoryReason>

export const MemoryDetail = Vocabulary('snapshot_pending', 'provisioning', 'unavailable')

/** The status of an account's memory: `ready` means that a task submitted now would carry it. */
export const MemoryStatus = Type.Object(
  {
    enabled: Type.Boolean({ description: 'The platform has enabled memory for the account' }),
    ready: Type.Boolean({ description: 'A task submitted now would carry the memory' }),
    detail: Nullable(MemoryDetail),
  },
  { $id: 'MemoryStatus' },
)
export type MemoryStatus = Static<typeof MemoryStatus>

const Text = Formed('\\S', 'must not be blank', { minLength: 1, maxLength: MAX_MEMORY })

export const MemoryEntry = Type.Object(
  {
    entry_id: Uuid,
    text: Type.String(),
    source: Type.String(),
    created_at: Timestamp,
    superseded_by: Nullable(Uuid),
  },
  { $id: 'MemoryEntry' },
)
export type MemoryEntry = Static<typeof MemoryEntry>

export const AddMemoryEntry = Type.Object(
  {
    text: Text,
    source: Type.Optional(Name),
    supersedes: Type.Optional({
      ...Uuid,
      description: 'The entry that this one replaces; it is no longer recalled',
    }),
  },
  { additionalProperties: false },
)

/** The response to a new entry. It contains no text, because responses are stored for repeated requests. */
export const AddedMemoryEntry = Type.Object({
  entry_id: Uuid,
  source: Type.String(),
  created_at: Timestamp,
})

export const RecallMemory = Type.Object(
  {
    query: Text,
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 10 })),
  },
  { additionalProperties: false },
)

export const RecalledMemory = Type.Object(
  {
    entries: Type.Array(MemoryEntry),
    ordered_by: Vocabulary('nearness', 'recency'),
  },
  { $id: 'RecalledMemory' },
)

export const ImportMemory = Type.Object(
  {
    entries: Type.Array(
      Type.Object(
        { text: Text, source: Type.Optional(Name), created_at: Type.Optional(Timestamp) },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: MAX_IMPORTED },
    ),
  },
  { additionalProperties: false },
)

export const ImportedMemory = Type.Object({
  imported: Type.Integer({ description: 'Entries that were added' }),
  already_present: Type.Integer({
    description: 'Entries that already exist with the same text, source and, if given, time',
  }),
})

export const MemoryGrant = Type.Object({
  key_id: Uuid,
  access: MemoryAccess,
  created_at: Timestamp,
})
export type MemoryGrant = Static<typeof MemoryGrant>

/** The memory of one account as operators see it, without contents. */
export const AccountMemory = Type.Object(
  {
    account_id: Uuid,
    ...MemoryStatus.properties,
    entries: Type.Integer(),
    snapshot: Nullable(
      Type.Object({ snapshot_id: Uuid, entries: Type.Integer(), ready_at: Nullable(Timestamp) }),
    ),
    grants: Type.Array(MemoryGrant),
  },
  { $id: 'AccountMemory' },
)
export type AccountMemory = Static<typeof AccountMemory>

/** The memory of a task, for its audit. */
export const TaskMemory = Type.Object({
  snapshot_id: Nullable(Uuid),
  outcome: MemoryOutcome,
  reason: Nullable(MemoryReason),
  decided_at: Nullable(Timestamp),
})
