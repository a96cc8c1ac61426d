import type { Command } from 'commander'

/**
 * A first word of the command line. Its file is imported when it is used, which keeps every other start short; `whole`
 * builds the program with all of them.
 */
interface Noun {
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

export const NOUNS: readonly Noun[] = [
  {
    name: 'login',
    about: 'keep the address and the key of a platform as a profile',
    group: SESSION,
    load: async () => (await import('./commands/login.ts')).loginCommand,
  },
  {
    name: 'logout',
    about: 'forget the keys of a profile on this machine',
    group: SESSION,
    load: async () => (await import('./commands/login.ts')).logoutCommand,
  },
  {
    name: 'whoami',
    about: 'show the platform, account and key that commands use, and where they are from',
    group: SESSION,
    load: async () => (await import('./commands/whoami.ts')).whoamiCommand,
  },
  {
    name: 'status',
    about: 'show whether the platform works and what it has to do',
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
    about: 'upload tables, list them, look into them',
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
    about: 'list training runs and merges, follow, cancel and repeat them',
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
    about: 'list models, download them, see what they were made from; import models',
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
    about: 'put models behind names, price, scale, pause and remove them; review public ones',
    group: ASK,
    load: async () => {
      const [{ endpointCommands }, { scaleCommand }, { reviewCommands }] = await Promise.all([
        import('./commands/endpoints.ts'),
        import('./commands/endpoint-scaling.ts'),
        import('./commands/endpoint-reviews.ts'),
      ])
      return (endpoints) => {
        endpointCommands(endpoints)
        scaleCommand(endpoints)
        reviewCommands(endpoints)
      }
    },
  },
  {
    name: 'infer',
    about: 'ask an endpoint once',
    group: ASK,
    load: async () => (await import('./commands/infer.ts')).inferCommand,
  },
  {
    name: 'chat',
    about: 'talk with a language model',
    group: ASK,
    load: async () => (await import('./commands/chat.ts')).chatCommand,
  },
  {
    name: 'tasks',
    about: 'list inference tasks, wait for them, cancel them',
    group: ASK,
    load: async () => (await import('./commands/tasks.ts')).taskCommands,
  },
  {
    name: 'cohorts',
    about: 'plan and run graphs of models over the nodes (docs/cohorts.md)',
    group: ASK,
    load: async () => (await import('./commands/cohorts.ts')).cohortCommands,
  },
  {
    name: 'mcp',
    about: 'serve the Model Context Protocol on standard input and output, for desktop clients',
    group: ASK,
    load: async () => (await import('./commands/mcp.ts')).mcpCommands,
  },
  {
    name: 'keys',
    about: 'create, list and revoke API keys',
    group: ACCOUNT,
    load: async () => (await import('./commands/keys.ts')).keyCommands,
  },
  {
    name: 'usage',
    about: 'show requests, tokens and cost by day, endpoint, key or model',
    group: ACCOUNT,
    load: async () => (await import('./commands/usage.ts')).usageCommand,
  },
  {
    name: 'ledger',
    about: 'show what the account has paid, got back and been given, and its balance',
    group: ACCOUNT,
    load: async () => (await import('./commands/ledger.ts')).ledgerCommand,
  },
  {
    name: 'webhooks',
    about: 'make webhook endpoints, test them, see and repeat deliveries',
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
    about: 'make a one-time token by which a machine joins the pool',
    group: OPERATORS,
    load: async () => (await import('./commands/node-token.ts')).nodeTokenCommands,
  },
  {
    name: 'queues',
    about: 'show what waits, in the database and in Temporal',
    group: OPERATORS,
    load: async () => (await import('./commands/queues.ts')).queuesCommand,
  },
  {
    name: 'accounts',
    about: 'create and list accounts',
    group: OPERATORS,
    load: async () => (await import('./commands/accounts.ts')).accountCommands,
  },
  {
    name: 'quotas',
    about: 'set what an account may do at once',
    group: OPERATORS,
    load: async () => (await import('./commands/quotas.ts')).quotaCommands,
  },
  {
    name: 'killswitch',
    about: 'refuse all new work, or admit it again',
    group: OPERATORS,
    load: async () => (await import('./commands/killswitch.ts')).killSwitchCommands,
  },
  {
    name: 'memory',
    about: 'give accounts memory, and keys access to it (HEARTH_MEMORY=1)',
    group: OPERATORS,
    load: async () => (await import('./commands/memory.ts')).memoryCommands,
  },
  {
    name: 'tools',
    about: 'offer tools, list and withdraw them',
    group: OPERATORS,
    load: async () => (await import('./commands/tools.ts')).toolCommands,
  },
  {
    name: 'audit',
    about: 'show the ledger of a task and the memory that it was given',
    group: OPERATORS,
    load: async () => (await import('./commands/audit.ts')).auditCommand,
  },
  {
    name: 'doctor',
    about: 'check this machine and the platform, and say what to do',
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
