import { counter, gauge, histogram, type Instrument, type InstrumentKind, total } from './declarations.ts'

/** Buckets in seconds: for requests, as the HTTP conventions advise, and for longer work. */
const REQUEST_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const OPERATION_SECONDS = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
]
const FIRST_TOKEN_SECONDS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
]
const TOKEN_SECONDS = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5]
const COMMIT_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
/** Token counts: powers of four, as the GenAI conventions advise. */
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power)
const ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256]

const ALL = ['gateway', 'worker', 'gate', 'node'] as const
const GATEWAY = ['gateway'] as const

/**
 * Every metric of the platform, by its OpenTelemetry name: HTTP and GenAI metrics under their semantic conventions, and
 * ours under `hearth.`. A metric never changes its name, because dashboards and alerts use it. Only
 * `hearth.admission.refusals` has an account's id, and none has a key's id, so labels stay few and anonymous.
 */
export const INSTRUMENTS = {
  'hearth.build.info': gauge({
    unit: '',
    description: 'Always 1; the labels name the version and the kind of process.',
    attributes: ['version', 'process'],
    processes: ALL,
  }),
  'process.uptime': gauge({
    unit: 's',
    description: 'Time since the process started.',
    attributes: [],
    processes: ALL,
  }),
  'process.cpu.time': total({
    unit: 's',
    description: 'CPU time of the process.',
    attributes: ['cpu.mode'],
    processes: ALL,
  }),
  'process.memory.usage': gauge({
    unit: 'By',
    description: 'Resident memory of the process.',
    attributes: [],
    processes: ALL,
  }),
  'nodejs.eventloop.delay.mean': gauge({
    unit: 's',
    description: 'Mean delay of the event loop since the last scrape.',
    attributes: [],
    processes: ALL,
  }),
  'nodejs.eventloop.delay.p99': gauge({
    unit: 's',
    description: '99th percentile of the delay of the event loop since the last scrape.',
    attributes: [],
    processes: ALL,
  }),
  'nodejs.eventloop.delay.max': gauge({
    unit: 's',
    description: 'Longest delay of the event loop since the last scrape.',
    attributes: [],
    processes: ALL,
  }),
  'nodejs.eventloop.utilization': gauge({
    unit: '1',
    description: 'Share of the time since the last scrape in which the event loop was busy.',
    attributes: [],
    processes: ALL,
  }),
  'http.server.request.duration': histogram({
    unit: 's',
    description: 'Time from the arrival of an HTTP request until its response is complete.',
    attributes: ['http.request.method', 'http.route', 'http.response.status_code', 'error.type'],
    processes: GATEWAY,
    buckets: REQUEST_SECONDS,
  }),
  'http.server.active_requests': gauge({
    unit: '{request}',
    description: 'HTTP requests without a complete response.',
    attributes: [],
    processes: GATEWAY,
  }),
  'gen_ai.server.request.duration': histogram({
    unit: 's',
    description: 'Time for a request to a model over the OpenAI API, including any wait for the model.',
    attributes: ['gen_ai.operation.name', 'gen_ai.request.model', 'error.type'],
    processes: GATEWAY,
    buckets: OPERATION_SECONDS,
  }),
  'gen_ai.server.time_to_first_token': histogram({
    unit: 's',
    description: "Time until a stream's first event, including any wait for the model.",
    attributes: ['gen_ai.operation.name', 'gen_ai.request.model'],
    processes: GATEWAY,
    buckets: FIRST_TOKEN_SECONDS,
  }),
  'gen_ai.server.time_per_output_token': histogram({
    unit: 's',
    description: 'Mean time between two tokens of a stream after its first event.',
    attributes: ['gen_ai.operation.name', 'gen_ai.request.model'],
    processes: GATEWAY,
    buckets: TOKEN_SECONDS,
  }),
  'gen_ai.client.token.usage': histogram({
    unit: '{token}',
    description: 'Tokens of a request as the model server reported them.',
    attributes: ['gen_ai.operation.name', 'gen_ai.request.model', 'gen_ai.token.type'],
    processes: GATEWAY,
    buckets: TOKENS,
  }),
  'hearth.model.wait.duration': histogram({
    unit: 's',
    description:
      'Waiting time of requests that found no free slot of a loaded model (`slot`) or no loaded model (`load`). Requests that did not wait are not counted.',
    attributes: ['model', 'reason'],
    processes: GATEWAY,
    buckets: OPERATION_SECONDS,
  }),
  'hearth.model.waiting': gauge({
    unit: '{request}',
    description: 'Requests that wait for a slot of the model (`slot`) or for the model to load (`load`).',
    attributes: ['model', 'reason'],
    processes: GATEWAY,
  }),
  'hearth.model.in_flight': gauge({
    unit: '{request}',
    description: "This gateway's requests that a node is working on.",
    attributes: ['model'],
    processes: GATEWAY,
  }),
  'hearth.model.copies': gauge({
    unit: '{copy}',
    description: 'Copies of the model on linked nodes, by state.',
    attributes: ['model', 'state'],
    processes: GATEWAY,
  }),
  'hearth.admission.refusals': counter({
    unit: '{request}',
    description:
      'Requests of an account that were rejected for a limit, a quota, missing capacity or the kill switch.',
    attributes: ['account_id', 'reason'],
    processes: GATEWAY,
  }),
  'hearth.placements': counter({
    unit: '{placement}',
    description: 'Searches for a node to load a model on, by result: `placed` or `no_node`.',
    attributes: ['result'],
    processes: ['gateway', 'worker'],
  }),
  'hearth.journal.commit.duration': histogram({
    unit: 's',
    description: 'Time to write a group of rows of warm inference, including its retries.',
    attributes: ['kind'],
    processes: GATEWAY,
    buckets: COMMIT_SECONDS,
  }),
  'hearth.journal.group.size': histogram({
    unit: '{row}',
    description: 'Rows that were written in one transaction.',
    attributes: ['kind'],
    processes: GATEWAY,
    buckets: ROWS,
  }),
  'hearth.journal.backlog': gauge({
    unit: '{row}',
    description:
      'Rows that are not durable yet: new tasks (`open`), and ended tasks with their ledger entries (`settle`).',
    attributes: ['kind'],
    processes: GATEWAY,
  }),
  'hearth.journal.lag': gauge({
    unit: 's',
    description: 'Age of the oldest row that is not durable yet.',
    attributes: ['kind'],
    processes: GATEWAY,
  }),
  'hearth.work.waiting': gauge({
    unit: '{item}',
    description:
      'Durable work that has not started, of the whole platform: `task`, `run`, `merge`, `cohort`, `webhook_delivery`, and `workflow_start` (the outbox).',
    attributes: ['kind'],
    processes: GATEWAY,
  }),
  'hearth.work.running': gauge({
    unit: '{item}',
    description: 'Durable work in progress, of the whole platform.',
    attributes: ['kind'],
    processes: GATEWAY,
  }),
  'hearth.work.oldest_wait': gauge({
    unit: 's',
    description: 'Age of the oldest durable work that has not started; 0 if there is none.',
    attributes: ['kind'],
    processes: GATEWAY,
  }),
  'hearth.nodes': gauge({
    unit: '{node}',
    description: 'Nodes of the whole platform, by status.',
    attributes: ['status'],
    processes: GATEWAY,
  }),
  'hearth.node.link.up': gauge({
    unit: '',
    description: '1 if the node is linked to this gateway, or else 0.',
    attributes: ['node_id', 'node'],
    processes: GATEWAY,
  }),
  'hearth.node.memory.total': gauge({
    unit: 'By',
    description:
      'Memory that a linked node has for models and trainers: GPU memory on GPU nodes, or else RAM.',
    attributes: ['node_id', 'node'],
    processes: GATEWAY,
  }),
  'hearth.node.memory.free': gauge({
    unit: 'By',
    description: 'The part of that memory that is not reserved.',
    attributes: ['node_id', 'node'],
    processes: GATEWAY,
  }),
  'hearth.node.load': gauge({
    unit: '1',
    description: "Share of a linked node's CPU in use.",
    attributes: ['node_id', 'node'],
    processes: GATEWAY,
  }),
  'hearth.kill_switch.active': gauge({
    unit: '',
    description: '1 while the kill switch stops new work.',
    attributes: [],
    processes: GATEWAY,
  }),
  'hearth.dependency.up': gauge({
    unit: '',
    description: '1 if the system responds, or else 0: `postgresql` or `temporal`.',
    attributes: ['system'],
    processes: GATEWAY,
  }),
} as const satisfies Record<string, Instrument>

type Instruments = typeof INSTRUMENTS
/** The OpenTelemetry names of the metrics of some kinds. */
export type NameOf<K extends InstrumentKind> = {
  [N in keyof Instruments]: Instruments[N]['kind'] extends K ? N : never
}[keyof Instruments]
/** The attributes of a metric; those that don't apply to a measurement are absent. */
export type AttributesOf<N extends keyof Instruments> = Readonly<
  Partial<Record<Instruments[N]['attributes'][number], string | number | undefined>>
>
