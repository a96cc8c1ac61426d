import Type, { type Static } from 'typebox'
import { KeyLimits, KeyRole } from './api-key.ts'
import { Nullable, PageQuery, Timestamp, Uuid, Vocabulary } from './common.ts'

/** The account of a key, with the permissions and limits of both. */
export const Me = Type.Object(
  {
    account: Type.Object({ id: Uuid, name: Type.String() }),
    role: KeyRole,
    key: Type.Object({
      id: Uuid,
      name: Type.String(),
      hint: Type.String({ description: 'The last four characters' }),
      expires_at: Nullable(Timestamp),
      limits: Nullable(KeyLimits),
    }),
    quotas: Type.Object({
      training: Type.Integer({ description: 'Training runs and merges that may be open at a time' }),
      tasks: Type.Integer({ description: 'Inference tasks that may wait for a node at a time' }),
      copies: Type.Integer({ description: 'Copies of models that may be reserved for endpoints' }),
    }),
    storage: Type.Optional(
      Type.Object({
        limit_bytes: Nullable(
          Type.Integer({ description: 'Bytes that the account may store; null means no limit' }),
        ),
        stored_bytes: Type.Integer({
          description:
            'Current dataset files, run files and checkpoints, imported models, inputs and result files',
        }),
        under_way_bytes: Type.Integer({
          description:
            'Uploads in progress, uncommitted uploads, and files that the platform is still reading',
        }),
      }),
    ),
    balance_credits: Type.Number({
      description: 'The credits that operators gave the account, minus its spending',
    }),
    features: Type.Array(Type.String()),
    base_url: Type.String(),
  },
  { $id: 'Me' },
)
export type Me = Static<typeof Me>

const period = {
  from: Type.Optional({ ...Timestamp, description: 'Work created at this time or later' }),
  to: Type.Optional({ ...Timestamp, description: 'Work created before this time' }),
}

export const LedgerQuery = Type.Object({ ...PageQuery.properties, ...period })

/** A movement of an account's credits; negative for payments. */
const AccountEntry = Type.Object(
  {
    task_id: Nullable({ ...Uuid, description: 'Null for credits from an operator' }),
    endpoint_id: Nullable(Uuid),
    cohort_id: Nullable(
      Type.String({ description: 'The cohort of a stage; each stage is paid for separately' }),
    ),
    stage: Nullable(Type.String()),
    kind: Vocabulary('hold', 'capture', 'payout', 'refund', 'credit'),
    reason: Nullable(Type.String({ description: 'Why an operator granted the credits or took them back' })),
    amount_micro: Type.Integer({ description: 'Micro-credits; negative for what the account pays' }),
    amount_credits: Type.Number(),
    created_at: Timestamp,
  },
  { $id: 'AccountEntry' },
)
export type AccountEntry = Static<typeof AccountEntry>

export const AccountLedger = Type.Object(
  {
    entries: Type.Array(AccountEntry, {
      description:
        'Grouped by work, newest first; a page has all entries of `limit` tasks, stages or credits, up to two for each',
    }),
    next_cursor: Nullable(Type.String()),
    period: Type.Object({
      spent_micro: Type.Integer({
        description: 'For work in this period; reserved credits count as spent',
      }),
      spent_credits: Type.Number(),
    }),
    balance: Type.Object({ micro: Type.Integer(), credits: Type.Number() }),
  },
  { $id: 'AccountLedger' },
)
export type AccountLedger = Static<typeof AccountLedger>

export const UsageGroup = Vocabulary('day', 'endpoint', 'key', 'model')

export const UsageQuery = Type.Object({
  ...period,
  group: Type.Optional({ ...UsageGroup, default: 'day' }),
})

const Count = Type.Integer({ minimum: 0 })

export const AccountUsage = Type.Object(
  {
    group: UsageGroup,
    from: Timestamp,
    to: Timestamp,
    rows: Type.Array(
      Type.Object({
        group: Nullable(
          Type.String({
            description:
              'A UTC day, an endpoint or key id, or a model key; null for work whose API key was not recorded',
          }),
        ),
        name: Nullable(Type.String({ description: 'The name of the endpoint or the key' })),
        requests: Count,
        failed: Count,
        tokens_in: Count,
        tokens_out: Count,
        cost_micro: Type.Integer({
          description: 'Micro-credits, as in the ledger; includes reserved credits',
        }),
        cost_credits: Type.Number(),
      }),
    ),
  },
  { $id: 'AccountUsage' },
)
export type AccountUsage = Static<typeof AccountUsage>
