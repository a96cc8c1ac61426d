import Type, { type Static } from 'typebox'
import { Nullable, PageQuery, Timestamp, Uuid, Vocabulary } from './common.ts'
import { Formed, Name } from './forms.ts'
import { TaskMemory } from './memory.ts'
import { NodeSharing } from './nodes/node.ts'

export const Account = Type.Object({
  account_id: Uuid,
  name: Type.String(),
  training_quota: Type.Integer(),
  task_quota: Type.Integer(),
  storage_quota_bytes: Nullable(
    Type.Integer({
      description: 'Bytes that it may store; null uses the platform default, 0 means no limit',
    }),
  ),
  copy_quota: Nullable(
    Type.Integer({
      description: 'Copies of models that its endpoints may reserve; null uses the platform default',
    }),
  ),
  hub_repos: Type.Array(Type.String(), {
    description: 'Private and gated hub repositories that the account may use with the platform token',
  }),
  created_at: Timestamp,
})
export type Account = Static<typeof Account>

/** An account with its resources and activity. */
export const AccountView = Type.Object(
  {
    ...Account.properties,
    keys: Type.Integer({ description: 'Active keys' }),
    nodes: Type.Integer({ description: 'Nodes that the account owns' }),
    open_runs: Type.Integer({ description: 'Training runs and merges' }),
    open_tasks: Type.Integer({ description: 'Inference tasks, 10,000 at most' }),
    requests: Type.Integer({ description: 'All inference tasks that have ended so far' }),
    failed: Type.Integer({ description: 'How many of them failed' }),
    last_used_at: Nullable({ ...Timestamp, description: 'The last use of any of its keys, to the minute' }),
  },
  { $id: 'AccountView' },
)
export type AccountView = Static<typeof AccountView>

export const AccountListQuery = Type.Object({
  ...PageQuery.properties,
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'Part of the name' })),
})

const Quota = Type.Integer({
  minimum: 0,
  maximum: 100_000,
  description: 'Training runs and merges at a time',
})
const TaskQuota = Type.Integer({
  minimum: 0,
  maximum: 1_000_000,
  description: 'Inference tasks that wait for a node at a time',
})

const StorageQuota = Nullable(
  Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    description:
      'Bytes that the account may store, including uploads in progress; 0 means no limit, null uses the platform default (HEARTH_ACCOUNT_STORAGE_GB)',
  }),
)

const CopyQuota = Nullable(
  Type.Integer({
    minimum: 0,
    maximum: 100_000,
    description:
      'Copies of models that its endpoints may reserve; null uses the platform default (HEARTH_ACCOUNT_COPIES)',
  }),
)

export const CreateAccount = Type.Object(
  {
    name: Name,
    training_quota: Type.Optional(Quota),
    task_quota: Type.Optional(TaskQuota),
    storage_quota_bytes: Type.Optional(StorageQuota),
  },
  { additionalProperties: false },
)

const RepoPattern = Formed(
  '^(?:\\*|[A-Za-z0-9][A-Za-z0-9._-]*(?:/(?:\\*|[A-Za-z0-9][A-Za-z0-9._-]*))?)$',
  'must be a repository id, owner/* or *',
  { maxLength: 200 },
)

export const UpdateAccount = Type.Object(
  {
    name: Type.Optional(Name),
    training_quota: Type.Optional(Quota),
    task_quota: Type.Optional(TaskQuota),
    storage_quota_bytes: Type.Optional(StorageQuota),
    copy_quota: Type.Optional(CopyQuota),
    hub_repos: Type.Optional(Type.Array(RepoPattern, { maxItems: 1_000, uniqueItems: true })),
  },
  { additionalProperties: false, minProperties: 1 },
)

/** Credits for an account, which also sees the `reason`. */
export const GiveCredits = Type.Object(
  {
    amount_credits: Type.Number({
      minimum: -1_000_000_000,
      maximum: 1_000_000_000,
      description: 'Rounded to a millionth of a credit; a negative amount takes credits back',
    }),
    reason: Type.String({ minLength: 1, maxLength: 500 }),
  },
  { additionalProperties: false },
)

export const AccountCredit = Type.Object(
  {
    credit_id: Uuid,
    account_id: Uuid,
    amount_micro: Type.Integer(),
    amount_credits: Type.Number(),
    reason: Type.String(),
    balance: Type.Object({ micro: Type.Integer(), credits: Type.Number() }),
    created_at: Timestamp,
  },
  { $id: 'AccountCredit' },
)

/** Creates a join token. A node works only for its own account unless the token makes it shared. */
export const CreateNodeToken = Type.Object(
  { account_id: Uuid, sharing: Type.Optional(NodeSharing) },
  { additionalProperties: false },
)
export const NodeToken = Type.Object({ account_id: Uuid, sharing: NodeSharing, node_token: Type.String() })

/** The kill switch, and how many gateways have acknowledged its state. */
export const KillSwitchStatus = Type.Object({
  active: Type.Boolean(),
  reason: Nullable(Type.String()),
  actor: Nullable(Type.String()),
  changed_at: Timestamp,
  gateways: Type.Object({ live: Type.Integer(), acknowledged: Type.Integer() }),
})
export type KillSwitchStatus = Static<typeof KillSwitchStatus>

export const LedgerEntry = Type.Object({
  entry_id: Type.String({ description: 'Unique within the task' }),
  stage: Nullable(Type.String({ description: 'The stage of a cohort; each stage is paid for separately' })),
  kind: Vocabulary('hold', 'capture', 'payout', 'refund', 'credit'),
  purse: Type.String({ description: '`account:<id>`, `escrow`, `platform` or `owner:<account id>`' }),
  amount_micro: Type.Integer({
    description: 'Micro-credits; negative for credits that leave the ledger account',
  }),
  created_at: Timestamp,
})

/** The ledger entries of one task; they sum to zero. */
export const TaskAudit = Type.Object({
  task_id: Uuid,
  account_id: Uuid,
  endpoint_id: Uuid,
  status: Type.String(),
  price_micro: Type.Integer(),
  entries: Type.Array(LedgerEntry),
  sums: Type.Object({
    total_micro: Type.Integer(),
    by_kind: Type.Record(Type.String(), Type.Integer()),
    by_purse: Type.Record(Type.String(), Type.Integer()),
  }),
  memory: Nullable(TaskMemory),
  created_at: Timestamp,
  completed_at: Nullable(Timestamp),
})
export type TaskAudit = Static<typeof TaskAudit>

export const SetMinWarm = Type.Object(
  { min_warm: Type.Integer({ minimum: 0, maximum: 1_000, description: 'Number of nodes; 0 for none' }) },
  { additionalProperties: false },
)

/** The nodes on which an endpoint's model is pinned. */
export const KeptWarm = Type.Object({
  endpoint_id: Uuid,
  name: Type.String(),
  model_key: Type.String(),
  min_warm: Type.Integer(),
  nodes: Type.Array(Uuid),
  missing: Nullable(Type.String({ description: 'Why there are fewer nodes than `min_warm`' })),
})
export type KeptWarm = Static<typeof KeptWarm>

export const ReviewNote = Type.Object(
  {
    note: Type.Optional(Type.String({ maxLength: 2000 })),
    updated_at: Type.Optional({
      ...Timestamp,
      description: '`updated_at` of the endpoint when it was read; 409 if it has changed since',
    }),
  },
  { additionalProperties: false },
)

/** A tool that the platform offers; catalog tools have no image. */
export const OfferedTool = Type.Object(
  {
    slug: Type.String(),
    origin: Vocabulary('catalog', 'operator'),
    endpoint_id: Uuid,
    image: Nullable(Type.String()),
    network: Vocabulary('none', 'egress'),
    updated_at: Timestamp,
  },
  { $id: 'OfferedTool' },
)
export type OfferedTool = Static<typeof OfferedTool>
