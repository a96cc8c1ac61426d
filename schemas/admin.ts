import Type, { type Static } from 'typebox'
import { Nullable, PageQuery, Timestamp, Uuid, Vocabulary } from './common.ts'
import { Formed, Name } from './forms.ts'
import { TaskMemory } from './memory.ts'
import { NodeSharing } from './node.ts'

export const Account = Type.Object({
  account_id: Uuid,
  name: Type.String(),
  training_quota: Type.Integer(),
  task_quota: Type.Integer(),
  storage_quota_bytes: Nullable(
    Type.Integer({
      description: 'Bytes that it may store; null is the default of the platform, 0 is no limit',
    }),
  ),
  copy_quota: Nullable(
    Type.Integer({
      description: 'Copies of models that its endpoints may reserve; null is the default of the platform',
    }),
  ),
  hub_repos: Type.Array(Type.String(), {
    description:
      'Private and gated hub repositories that the account may use with the access of the platform',
  }),
  created_at: Timestamp,
})
export type Account = Static<typeof Account>

/** An account with what it has and does. */
export const AccountView = Type.Object(
  {
    ...Account.properties,
    keys: Type.Integer({ description: 'Keys that work' }),
    nodes: Type.Integer({ description: 'Nodes that it owns' }),
    open_runs: Type.Integer({ description: 'Training runs and merges' }),
    open_tasks: Type.Integer({ description: 'Inference tasks, 10,000 at most' }),
    requests: Type.Integer({ description: 'Inference tasks that have ended, ever' }),
    failed: Type.Integer({ description: 'Those of them that failed' }),
    last_used_at: Nullable({ ...Timestamp, description: 'The last use of any of its keys, to the minute' }),
  },
  { $id: 'AccountView' },
)
export type AccountView = Static<typeof AccountView>

export const AccountListQuery = Type.Object({
  ...PageQuery.properties,
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'A part of the name' })),
})

const Quota = Type.Integer({ minimum: 0, maximum: 100_000, description: 'Training runs and merges at once' })
const TaskQuota = Type.Integer({
  minimum: 0,
  maximum: 1_000_000,
  description: 'Inference tasks that wait for a node at once',
})

const StorageQuota = Nullable(
  Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    description:
      'Bytes that the account may store, uploads in progress included; 0 is no limit, null the default of the platform (HEARTH_ACCOUNT_STORAGE_GB)',
  }),
)

const CopyQuota = Nullable(
  Type.Integer({
    minimum: 0,
    maximum: 100_000,
    description:
      'Copies of models that its endpoints may reserve; null is the default of the platform (HEARTH_ACCOUNT_COPIES)',
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
  'must be the id of a repository, owner/* or *',
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

/** Credits for an account; `reason` is shown to it. */
export const GiveCredits = Type.Object(
  {
    amount_credits: Type.Number({
      minimum: -1_000_000_000,
      maximum: 1_000_000_000,
      description: 'Rounded to a millionth of a credit; negative takes back',
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

/** Creates a join token. A node works for its own account alone unless the token makes it shared. */
export const CreateNodeToken = Type.Object(
  { account_id: Uuid, sharing: Type.Optional(NodeSharing) },
  { additionalProperties: false },
)
export const NodeToken = Type.Object({ account_id: Uuid, sharing: NodeSharing, node_token: Type.String() })

/** The kill switch, with how many gateways have acknowledged its state. */
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
  stage: Nullable(Type.String({ description: 'The stage of a cohort, which is paid for by itself' })),
  kind: Vocabulary('hold', 'capture', 'payout', 'refund', 'credit'),
  purse: Type.String({ description: '`account:<id>`, `escrow`, `platform` or `owner:<account id>`' }),
  amount_micro: Type.Integer({ description: 'Micro-credits; negative leaves the purse' }),
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
  { min_warm: Type.Integer({ minimum: 0, maximum: 1_000, description: 'Nodes; 0 keeps it loaded nowhere' }) },
  { additionalProperties: false },
)

/** The nodes on which an endpoint's model is pinned. */
export const KeptWarm = Type.Object({
  endpoint_id: Uuid,
  name: Type.String(),
  model_key: Type.String(),
  min_warm: Type.Integer(),
  nodes: Type.Array(Uuid),
  missing: Nullable(Type.String({ description: 'Why it is fewer nodes than `min_warm`' })),
})
export type KeptWarm = Static<typeof KeptWarm>

export const ReviewNote = Type.Object(
  {
    note: Type.Optional(Type.String({ maxLength: 2000 })),
    updated_at: Type.Optional({
      ...Timestamp,
      description: '`updated_at` of the endpoint as it was read; 409 when it has changed since',
    }),
  },
  { additionalProperties: false },
)

/** A tool that the platform offers; those of the catalog have no image of their own. */
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
