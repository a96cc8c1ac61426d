import Type, { type Static } from 'typebox'
import { Nullable, PageQuery, Timestamp, Uuid } from './common.ts'

/** The changed fields, with their old and new values. */
export const Changes = Type.Record(
  Type.String(),
  Type.Object({
    from: Type.Unknown({ description: 'null if it did not exist' }),
    to: Type.Unknown(),
  }),
)
export type Changes = Static<typeof Changes>

/** One change, recorded in the transaction that made it. */
export const AuditEntry = Type.Object(
  {
    entry_id: Uuid,
    at: Timestamp,
    actor: Type.String({
      description: '`operations-key`, `key:<id>`, or the name given in a kill switch order',
    }),
    action: Type.String({ description: 'The operation id' }),
    subject: Type.Object({
      kind: Type.String({ description: 'For example `account`, `key`, `node` or `endpoint`' }),
      id: Type.String(),
    }),
    account_id: Nullable(Uuid),
    changes: Changes,
  },
  { $id: 'AuditEntry' },
)
export type AuditEntry = Static<typeof AuditEntry>

const Text = Type.String({ minLength: 1, maxLength: 200 })

export const AuditLogQuery = Type.Object({
  ...PageQuery.properties,
  actor: Type.Optional(Text),
  action: Type.Optional(Text),
  subject_id: Type.Optional(Text),
  account_id: Type.Optional(Uuid),
  since: Type.Optional({ ...Timestamp, description: 'Changes at this time or later' }),
  until: Type.Optional({ ...Timestamp, description: 'Changes before this time' }),
})
