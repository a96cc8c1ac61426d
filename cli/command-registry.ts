import type { Command } from 'commander'

/**
 * A top-level command. We import its file only when it's used, so other commands start fast. `whole` builds the
 * program with all commands.
 */
interface CommandGroup {
  name: string
  about: string
  group: string
  load: () => Promise<(command: Command, whole: () => Promise<Command>) => void>
}

const SESSION = 'Signing in:'
const WORK = 'Data, training, models:'
const ASK = 'Asking models:'
const ACCOUNT = 'The account:'
const OPERATORS = 'For operators:'
const MACHINE = 'This machine:'

export const NOUNS: readonly CommandGroup[] = [
  {
    name: 'login',
    about: 'store the URL and the API key of a platform as a profile',
    group: SESSION,
    load: async () => (await import('./commands/login.ts')).loginCommand,
  },
  {
    name: 'logout',
    about: 'remove a profile and its keys from this machine',
    group: SESSION,
    load: async () => (await import('./commands/login.ts')).logoutCommand,
  },
  {
    name: 'whoami',
    about: 'show the platform, account and key that commands use, and where they come from',
    group: SESSION,
    load: async () => (await import('./commands/whoami.ts')).whoamiCommand,
  },
  {
    name: 'status',
    about: 'show the health of the platform and your open work',
    group: SESSION,
    load: async () => (await import('./commands/status.ts')).statusCommand,
  },
  {
    name: 'open',
    about: 'open the console in a browser',
    group: SESSION,
    load: async () => (await import('./commands/open.ts')).openCommand,
  },
  {
    name: 'datasets',
    about: 'upload, list, inspect and delete datasets',
    group: WORK,
    load: async () => (await import('./commands/datasets.ts')).datasetCommands,
  },
  {
    name: 'train',
    about: 'train a model on a dataset',
    group: WORK,
    load: async () => (await import('./commands/train.ts')).trainCommand,
  },
  {
    name: 'runs',
    about: 'list, follow, pause, cancel and rerun training runs and merges',
    group: WORK,
    load: async () => (await import('./commands/runs.ts')).runCommands,
  },
  {
    name: 'merge',
    about: 'merge models or adapters into a new model',
    group: WORK,
    load: async () => (await import('./commands/merge.ts')).mergeCommand,
  },
  {
    name: 'models',
    about: 'list, download, trace and import models',
    group: WORK,
    load: async () => {
      const [{ modelCommands }, { importCommands }] = await Promise.all([
        import('./commands/registry.ts'),
        import('./commands/models.ts'),
      ])
      return (models) => {
        modelCommands(models)
        importCommands(models)
      }
    },
  },
  {
    name: 'endpoints',
    about: 'serve models as endpoints: create, price, scale, pause, delete and review them',
    group: ASK,
    load: async () => {
      const [{ endpointCommands }, { scaleCommand }, { servingCommand }, { reviewCommands }] =
        await Promise.all([
          import('./commands/endpoints/endpoints.ts'),
          import('./commands/endpoints/endpoint-scaling.ts'),
          import('./commands/endpoints/endpoint-serving.ts'),
          import('./commands/endpoints/endpoint-reviews.ts'),
        ])
      return (endpoints) => {
        endpointCommands(endpoints)
        scaleCommand(endpoints)
        servingCommand(endpoints)
        reviewCommands(endpoints)
      }
    },
  },
  {
    name: 'infer',
    about: 'send one request to an endpoint',
    group: ASK,
    load: async () => (await import('./commands/infer.ts')).inferCommand,
  },
  {
    name: 'chat',
    about: 'chat with a language model',
    group: ASK,
    load: async () => (await import('./commands/chat.ts')).chatCommand,
  },
  {
    name: 'tasks',
    about: 'list, wait for and cancel inference tasks',
    group: ASK,
    load: async () => (await import('./commands/tasks.ts')).taskCommands,
  },
  {
    name: 'cohorts',
    about: 'plan and run graphs of models across nodes (docs/cohorts.md)',
    group: ASK,
    load: async () => (await import('./commands/cohorts.ts')).cohortCommands,
  },
  {
    name: 'mcp',
    about: 'serve the Model Context Protocol over stdio, for desktop clients',
    group: ASK,
    load: async () => (await import('./commands/mcp.ts')).mcpCommands,
  },
  {
    name: 'keys',
    about: 'create, list and revoke API keys',
    group: ACCOUNT,
    load: async () => (await import('./commands/admin/keys.ts')).keyCommands,
  },
  {
    name: 'usage',
    about: 'show requests, tokens and cost by day, endpoint, key or model',
    group: ACCOUNT,
    load: async () => (await import('./commands/admin/usage.ts')).usageCommand,
  },
  {
    name: 'ledger',
    about: 'show charges, refunds, grants and the balance of the account',
    group: ACCOUNT,
    load: async () => (await import('./commands/admin/ledger.ts')).ledgerCommand,
  },
  {
    name: 'webhooks',
    about: 'create and test webhook endpoints, inspect and replay deliveries',
    group: ACCOUNT,
    load: async () => (await import('./commands/webhooks.ts')).webhookCommands,
  },
  {
    name: 'listen',
    about: 'receive webhooks: answer challenges, verify signatures, print events',
    group: ACCOUNT,
    load: async () => (await import('./listen.ts')).listenCommand,
  },
  {
    name: 'overview',
    about: 'show the whole platform at a glance, and what needs attention',
    group: OPERATORS,
    load: async () => (await import('./commands/overview.ts')).overviewCommand,
  },
  {
    name: 'nodes',
    about: 'list, drain, resume, share and remove nodes',
    group: OPERATORS,
    load: async () => (await import('./commands/nodes.ts')).nodeCommands,
  },
  {
    name: 'node-token',
    about: 'create a one-time token that lets a node join the pool',
    group: OPERATORS,
    load: async () => (await import('./commands/node-token.ts')).nodeTokenCommands,
  },
  {
    name: 'queues',
    about: 'show queued work, in the database and in Temporal',
    group: OPERATORS,
    load: async () => (await import('./commands/queues.ts')).queuesCommand,
  },
  {
    name: 'accounts',
    about: 'create and list accounts',
    group: OPERATORS,
    load: async () => (await import('./commands/admin/accounts.ts')).accountCommands,
  },
  {
    name: 'quotas',
    about: 'set the quotas of an account',
    group: OPERATORS,
    load: async () => (await import('./commands/admin/quotas.ts')).quotaCommands,
  },
  {
    name: 'killswitch',
    about: 'reject all new work, or admit it again',
    group: OPERATORS,
    load: async () => (await import('./commands/admin/killswitch.ts')).killSwitchCommands,
  },
  {
    name: 'memory',
    about: "manage accounts' memory and which keys may access it (HEARTH_MEMORY=1)",
    group: OPERATORS,
    load: async () => (await import('./commands/memory.ts')).memoryCommands,
  },
  {
    name: 'tools',
    about: 'add, list and remove tools',
    group: OPERATORS,
    load: async () => (await import('./commands/tools.ts')).toolCommands,
  },
  {
    name: 'audit',
    about: 'show the ledger entries of a task and the memory it used',
    group: OPERATORS,
    load: async () => (await import('./commands/admin/audit.ts')).auditCommand,
  },
  {
    name: 'backup',
    about: 'write a backup of the database and the objects to a file',
    group: OPERATORS,
    load: async () => (await import('./commands/backup.ts')).backupCommand,
  },
  {
    name: 'restore',
    about: 'restore a backup into an empty deployment, or check one',
    group: OPERATORS,
    load: async () => (await import('./commands/backup.ts')).restoreCommand,
  },
  {
    name: 'upgrade',
    about: 'check whether a deployment is ready for an upgrade to this checkout',
    group: OPERATORS,
    load: async () => (await import('./commands/upgrade.ts')).upgradeCommand,
  },
  {
    name: 'doctor',
    about: 'diagnose this machine and the platform',
    group: MACHINE,
    load: async () => (await import('./commands/doctor.ts')).doctorCommand,
  },
  {
    name: 'completion',
    about: 'print a completion script for a shell',
    group: MACHINE,
    load: async () => (await import('./commands/completion.ts')).completionCommand,
  },
]
