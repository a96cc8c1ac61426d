import { freePorts } from '../../../platform/free-ports.ts'
import { createLogger } from '../../../platform/log.ts'
import { type OpenGate, openGate } from '../../../workers/gate/open-gate.ts'
import { startApi, type TestApi, type TestApiOptions } from './api.ts'
import type { TestTemporal } from './temporal.ts'

/** A gateway on a Temporal server, and the gate through which its nodes reach that server. */
export interface GatedApi {
  readonly api: TestApi
  readonly gate: OpenGate
}

/** Starts the gateway and the gate; closing the stack stops them. */
export async function startGatedApi(
  stack: AsyncDisposableStack,
  temporal: Pick<TestTemporal, 'address'>,
  { holdMs, ...options }: TestApiOptions & { holdMs?: number } = {},
): Promise<GatedApi> {
  const [port] = await freePorts(1)
  const env = {
    TEMPORAL_ADDRESS: temporal.address,
    HEARTH_GATE_PORT: String(port),
    HEARTH_GATE_URL: `http://127.0.0.1:${port}`,
    ...options.env,
  }
  const api = stack.use(await startApi({ ...options, env }))
  return { api, gate: stack.use(await startGate(api, holdMs === undefined ? {} : { holdMs })) }
}

/** Starts a gate in this process with the settings of a test gateway. */
export const startGate = (
  { services: { config } }: TestApi,
  { port = config.HEARTH_GATE_PORT, ...options }: { holdMs?: number; port?: number } = {},
): Promise<OpenGate> =>
  openGate({ ...config, HEARTH_GATE_PORT: port }, createLogger('gate', config.HEARTH_LOG_LEVEL), {
    ...options,
    signal: new AbortController().signal,
  })
