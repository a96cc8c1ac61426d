import { isAsleep, isLoading, warmthOf } from '../../../domain/placement/node-snapshot.ts'
import { largest } from '../../../platform/metrics/labels.ts'
import type { Metrics, Observe } from '../../../platform/metrics/metrics.ts'
import type { NodeModel } from '../../../schemas/nodes/node.ts'
import type { ModelLoads } from '../../inference/model-loads.ts'
import type { ModelSlots } from '../../inference/model-slots.ts'
import type { HealthProbe } from '../background/health-probe.ts'
import type { KillSwitchView } from '../caches/kill-switch.ts'
import type { Journal } from '../journal/journal.ts'
import type { NodeLinks } from '../links/node-links.ts'
import { MAX_MODELS } from './model-metrics.ts'
import type { StoredGauges } from './stored-gauges.ts'

interface GaugeSources {
  readonly links: Pick<NodeLinks, 'snapshot'>
  readonly places: Pick<ModelSlots, 'counts'>
  readonly loads: Pick<ModelLoads, 'waitingByModel'>
  readonly journal: Pick<Journal, 'backlogs'>
  readonly killSwitch: KillSwitchView
  readonly health: Pick<HealthProbe, 'check'>
  readonly stored: StoredGauges
}

const MB = 1024 ** 2

/** Exposes the state of a gateway, its models and the nodes that are linked to it. */
export function exposeGauges(metrics: Metrics, sources: GaugeSources): void {
  const { journal, killSwitch, health, stored } = sources
  metrics.onScrape((observe) => {
    observe('hearth.kill_switch.active', killSwitch.active ? 1 : 0)
    for (const { kind, rows, oldestMs } of journal.backlogs()) {
      observe('hearth.journal.backlog', rows, { kind })
      observe('hearth.journal.lag', oldestMs / 1_000, { kind })
    }
    observeModels(sources, observe)
  })
  metrics.onScrape(async (observe) => {
    const { database, temporal } = await health.check()
    observe('hearth.dependency.up', database.status === 'ok' ? 1 : 0, { system: 'postgresql' })
    observe('hearth.dependency.up', temporal.status === 'ok' ? 1 : 0, { system: 'temporal' })
  })
  metrics.onScrape(async (observe) => {
    const { nodes, work, names } = await stored.read()
    for (const [status, count] of Object.entries(nodes)) observe('hearth.nodes', count, { status })
    for (const { kind, waiting, running, oldest_waiting_s } of work) {
      observe('hearth.work.waiting', waiting, { kind })
      observe('hearth.work.running', running, { kind })
      observe('hearth.work.oldest_wait', oldest_waiting_s ?? 0, { kind })
    }
    observeNodes(sources, names, observe)
  })
}

function observeModels({ places, loads, links }: GaugeSources, observe: Observe): void {
  const inFlight = new Map<string, number>()
  const waiting = new Map<string, number>()
  for (const { modelKey, ...counts } of places.counts()) {
    inFlight.set(modelKey, counts.inFlight)
    waiting.set(modelKey, counts.waiting)
  }
  for (const [model, count] of largest(inFlight, MAX_MODELS))
    observe('hearth.model.in_flight', count, { model })
  for (const [model, count] of largest(waiting, MAX_MODELS))
    observe('hearth.model.waiting', count, { model, reason: 'slot' })
  for (const [model, count] of largest(loads.waitingByModel(), MAX_MODELS))
    observe('hearth.model.waiting', count, { model, reason: 'load' })
  const copies = new Map<string, Map<string, number>>()
  for (const { models } of links.snapshot()) {
    for (const model of models) {
      const state = stateOf(model)
      const ofState = copies.get(state) ?? new Map<string, number>()
      copies.set(state, ofState.set(model.model_key, (ofState.get(model.model_key) ?? 0) + 1))
    }
  }
  for (const [state, counts] of copies)
    for (const [model, count] of largest(counts, MAX_MODELS))
      observe('hearth.model.copies', count, { model, state })
}

/** A copy on a disk is `cached`, and one whose server sleeps is `asleep`. */
function stateOf(model: NodeModel): string {
  if (isAsleep(model)) return 'asleep'
  if (isLoading(model)) return 'loading'
  const warmth = warmthOf(model)
  return warmth === 'warm' ? 'loaded' : warmth
}

/** A node that is linked is up; a node of the pool that is not linked to this gateway is not. */
function observeNodes({ links }: GaugeSources, names: ReadonlyMap<string, string>, observe: Observe): void {
  const linked = new Map(links.snapshot().map((snapshot) => [snapshot.node_id, snapshot]))
  for (const [node_id, node] of names) {
    const snapshot = linked.get(node_id)
    observe('hearth.node.link.up', snapshot ? 1 : 0, { node_id, node })
    if (!snapshot) continue
    observe('hearth.node.memory.total', snapshot.memory_total_mb * MB, { node_id, node })
    observe('hearth.node.memory.free', snapshot.memory_free_mb * MB, { node_id, node })
    observe('hearth.node.load', snapshot.load, { node_id, node })
  }
}
