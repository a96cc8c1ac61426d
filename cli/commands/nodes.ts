import { type Command, Option } from 'commander'
import type { Static } from 'typebox'
import type { NodeLogs } from '../../schemas/nodes/node-logs.ts'
import type { NodeMemory } from '../../schemas/nodes/node-memory.ts'
import type { NodeDetail, NodeView } from '../../schemas/nodes/node.ts'
import { wholeNumber } from '../arguments.ts'
import { open } from '../context.ts'
import { id } from '../ids.ts'
import {
  DISK_TODO,
  formatDiskFault,
  formatGateFault,
  gateTodo,
  GPU_TODO,
  formatGpuFault,
} from '../nodes/faults.ts'
import { memoryTable } from '../nodes/memory-table.ts'
import { print, table } from '../print.ts'

/** The response to a node change, with the changed field. */
interface NodeChange {
  status?: string
  sharing?: string
}

/** Commands for the nodes of the pool. */
export function nodeCommands(nodes: Command): void {
  nodes
    .command('list')
    .alias('ls')
    .description('list the nodes of the pool')
    .action(async (_options: object, command: Command) => {
      const context = open(command)
      const list = await context.client.all<NodeView>('/nodes', 'nodes')
      const rows = list.map((node) => [
        node.node_id,
        node.name,
        [node.status, gateState(node), node.gpu_fault && 'GPUs unusable', node.disk_fault && 'disk full']
          .filter(Boolean)
          .join(', '),
        node.sharing,
        node.account_id,
        node.inventory.hardware,
        node.memory_free_mb === null ? null : `${node.memory_free_mb} of ${node.inventory.memory_mb} MB`,
        modelCounts(node),
        isolationOf(node),
        node.last_seen_at,
      ])
      const headings = [
        'NODE',
        'NAME',
        'STATUS',
        'SHARING',
        'ACCOUNT',
        'HARDWARE',
        'FREE MEMORY',
        'MODELS',
        'ISOLATION',
        'LAST SEEN',
      ]
      const faults = list.flatMap((node) => faultsOf(node).map((fault) => `Node ${node.name}: ${fault}`))
      print(context, list, [table(headings, rows), ...faults].join('\n'))
    })

  lookCommands(nodes)

  for (const [verb, description] of [
    ['drain', 'let a node finish its work and accept no new work'],
    ['resume', 'let a drained node accept work again'],
    ['share', 'let a node work for every account; its owner must be trusted with their data'],
    ['dedicate', 'let a node work only for its own account'],
    ['remove', 'remove a node and reject its key from now on'],
  ] as const) {
    nodes
      .command(`${verb} <node_id>`)
      .description(description)
      .action(async (nodeId: string, _options: object, command: Command) => {
        const context = open(command)
        const path = `/nodes/${id(nodeId)}`
        const moved = await (verb === 'remove'
          ? context.client.call<NodeChange>('DELETE', path)
          : context.client.call<NodeChange>('POST', `${path}/${verb}`))
        print(context, moved, `Node ${nodeId} is ${moved.status ?? moved.sharing}.`)
      })
  }
}

/** Commands that inspect one node. */
function lookCommands(nodes: Command): void {
  nodes
    .command('show <node_id>')
    .description('show the models, environments and work of a node')
    .action(async (nodeId: string, _options: object, command: Command) => {
      const context = open(command)
      const node = await context.client.call<Static<typeof NodeDetail>>('GET', `/nodes/${id(nodeId)}`)
      const models = node.models.map((one) => [
        one.model_key,
        one.asleep ? 'asleep' : one.state,
        one.memory_mb,
        one.in_flight,
        one.error,
      ])
      const engineFaults = node.models.flatMap(({ model_key, runtime_profile = '', engine_fault: fault }) =>
        fault ? [[model_key, runtime_profile, fault.runtime_profile, fault.error]] : [],
      )
      const processes = node.processes.map((one) => [
        one.model_key ?? `run ${one.run_id}`,
        one.ram_mb,
        one.ram_peak_mb,
        one.vram_mb ?? null,
        one.vram_peak_mb ?? null,
      ])
      const environments = node.environments.map((one) => [one.name, one.state, one.error])
      const work = node.work.map((one) => [one.kind, one.id, one.attempt, one.since])
      print(
        context,
        node,
        [
          `Node ${node.name} is ${node.status}, ${node.sharing}, last seen ${node.last_seen_at}, on ${node.inventory.hardware}.`,
          ...faultsOf(node).map((fault) => `But ${fault}`),
          table(['MODEL', 'STATE', 'MB', 'IN FLIGHT', 'ERROR'], models),
          ...(engineFaults.length > 0
            ? [table(['MODEL', 'SERVED BY', 'FAILED ENGINE', 'ERROR'], engineFaults)]
            : []),
          table(['MEASURED MEMORY', 'RAM MB', 'PEAK', 'VRAM MB', 'PEAK'], processes),
          table(['ENVIRONMENT', 'STATE', 'ERROR'], environments),
          table(['WORK', 'ID', 'ATTEMPT', 'SINCE'], work),
        ].join('\n\n'),
      )
    })

  nodes
    .command('memory <node_id>')
    .description('show the measured memory of a node, its model servers and its runs over time')
    .addOption(
      new Option('--window <window>', 'how far back').choices(['hour', 'day', 'week']).default('hour'),
    )
    .action(async (nodeId: string, { window }: { window: string }, command: Command) => {
      const context = open(command)
      const path = `/nodes/${id(nodeId)}/memory?window=${window}`
      const memory = await context.client.call<NodeMemory>('GET', path)
      print(context, memory, memoryTable(memory))
    })

  nodes
    .command('logs <node_id>')
    .description('show the newest log lines of the jobs, the process or the model servers of a node')
    .addOption(
      new Option('--source <source>', 'which logs to show; all but jobs are read from the node')
        .choices(['jobs', 'node', 'models'])
        .default('jobs'),
    )
    .option('-n, --lines <n>', 'number of lines', wholeNumber, 200)
    .action(
      async (nodeId: string, { source, lines }: { source: string; lines: number }, command: Command) => {
        const context = open(command)
        const path = `/nodes/${id(nodeId)}/logs?source=${source}&limit=${Math.max(1, lines)}`
        const { logs } = await context.client.call<Static<typeof NodeLogs>>('GET', path)
        const words = logs.map(({ at, job_id, model_key, message }) =>
          [at, job_id ?? model_key, message].filter(Boolean).join(' '),
        )
        print(context, logs, words.join('\n'))
      },
    )
}

/** Returns how many models a node holds and how many of them sleep, in words. */
function modelCounts({ models, ordered_models }: NodeView): string {
  const asleep = models.filter((model) => model.asleep).length
  const held = models.filter(({ state }) => state !== 'evicted').length
  const words = `holds ${held} of ${ordered_models.length} sent to it`
  return asleep > 0 ? `${words}, ${asleep} asleep` : words
}

/** Returns the faults that keep a node from working, each with its remedy. */
const faultsOf = ({
  gate_fault,
  gpu_fault,
  disk_fault,
}: Pick<NodeView, 'gate_fault' | 'gpu_fault'> & Partial<Pick<NodeView, 'disk_fault'>>): string[] => [
  ...(gate_fault ? [`${formatGateFault(gate_fault)}. To do: ${gateTodo(gate_fault)}.`] : []),
  ...(gpu_fault ? [`${formatGpuFault(gpu_fault)}. To do: ${GPU_TODO}.`] : []),
  ...(disk_fault ? [`${formatDiskFault(disk_fault)}. To do: ${DISK_TODO}.`] : []),
]

const gateState = ({ gate_fault }: NodeView): string | null =>
  gate_fault && (gate_fault.refused ? 'rejected by the gate' : 'no gate')

/** Returns the isolation measures that the node lacks, or `full`. */
function isolationOf({ inventory: { isolation } }: NodeView): string {
  if (!isolation) return 'not known'
  const missing = Object.values(isolation).flatMap((measures) =>
    Object.entries(measures).flatMap(([name, { enforced }]) => (enforced ? [] : [name])),
  )
  return missing.length === 0 ? 'full' : `no ${[...new Set(missing)].join(', no ')}`
}
