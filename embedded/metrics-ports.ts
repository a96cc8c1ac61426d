import type { Config } from '../platform/config.ts'
import { freePort } from '../platform/free-ports.ts'
import { localUrl } from '../platform/listening.ts'
import type { ProcessKind } from '../platform/metrics/declarations.ts'

type MetricsConfig = Pick<Config, 'HEARTH_METRICS_HOST' | 'HEARTH_METRICS_PORT'>
type MetricsPorts = Readonly<Record<ProcessKind, number>>

/** Returns a free port for the metrics of each process. `HEARTH_METRICS_PORT` sets the gateway's. */
export async function metricsPorts({
  HEARTH_METRICS_HOST: host,
  HEARTH_METRICS_PORT: port,
}: MetricsConfig): Promise<MetricsPorts> {
  const free = () => freePort(host)
  return { gateway: port || (await free()), worker: await free(), gate: await free(), node: await free() }
}

/** Returns the environment of a process with this port. */
export const onPort = (port: number): NodeJS.ProcessEnv => ({ HEARTH_METRICS_PORT: String(port) })

export const metricsUrl = ({ HEARTH_METRICS_HOST: host }: MetricsConfig, port: number): string =>
  `${localUrl({ host, port })}/metrics`

/** Returns the URLs of all processes' metrics, for people. */
export const metricsUrls = (config: MetricsConfig, ports: MetricsPorts): string =>
  Object.entries(ports)
    .map(([kind, port]) => `${metricsUrl(config, port)} (${kind})`)
    .join(', ')
