import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import type { ControlActivities } from '../activities/control/index.ts'
import {
  activateKillSwitch,
  deactivateKillSwitch,
  type KillSwitchOrder,
  killSwitchState,
  type KillSwitchState,
} from './contract/messages.ts'
import { LOCAL } from './contract/policy.ts'

const { followKillSwitch, switchKillSwitch } = proxyLocalActivities<ControlActivities>(LOCAL.record)

type Order = Partial<KillSwitchOrder> & { active: boolean }

/** After this many signals the workflow continues as new, well before a replay becomes slow. */
const ORDERS_PER_RUN = 200

/**
 * A single execution that never ends. For a signal from the UI or CLI, it writes the row, which is authoritative. For a
 * signal from the REST API, which has already written the row, it reads the row. Cancelling the workflow has no effect,
 * because admission depends on the switch.
 */
export function killSwitch(known?: KillSwitchState): Promise<void> {
  return CancellationScope.nonCancellable(() => run(known))
}

async function run(known: KillSwitchState | undefined): Promise<void> {
  let state: KillSwitchState = known ?? { active: false, reason: null, actor: null }
  const orders: Order[] = []
  let handled = 0
  setHandler(activateKillSwitch, (order) => void orders.push({ ...order, active: true }))
  setHandler(deactivateKillSwitch, (order) => void orders.push({ ...order, active: false }))
  setHandler(killSwitchState, () => state)

  if (!known) state = await followKillSwitch()
  for (;;) {
    showState(state)
    await condition(() => orders.length > 0 || isDue(handled))
    const order = orders.shift()
    if (!order) break
    state = order.version === undefined ? await switchKillSwitch(written(order)) : await followKillSwitch()
    handled++
  }
  await condition(allHandlersFinished)
  await continueAsNew<typeof killSwitch>(state)
}

/** A signal sent manually may lack the fields that the REST API requires. */
const written = ({ active, reason, actor }: Order): KillSwitchState => ({
  active,
  reason: reason ?? (active ? 'no reason given' : null),
  actor: actor ?? 'temporal',
})

const isDue = (handled: number): boolean => handled >= ORDERS_PER_RUN || workflowInfo().continueAsNewSuggested

function showState({ active, reason, actor }: KillSwitchState): void {
  setCurrentDetails(
    active
      ? `**Active**: every gateway refuses new work. Reason: ${reason ?? 'none'} (${actor ?? 'unknown'}). Signal \`deactivate\` to end it.`
      : 'Not active: new work is admitted. Signal `activate` with `{"reason": "...", "actor": "..."}` to stop it.',
  )
}
