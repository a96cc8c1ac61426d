/** The kinds of processes, each of which exposes its own instruments. */
export type ProcessKind = 'gateway' | 'worker' | 'gate' | 'node'

/**
 * Counters and histograms are updated while the process works. Gauges and totals are read at each scrape; a total only
 * grows.
 */
export type InstrumentKind = 'counter' | 'histogram' | 'gauge' | 'total'

/** One metric: its OpenTelemetry name is its key in `INSTRUMENTS`. */
export interface Instrument<
  K extends InstrumentKind = InstrumentKind,
  A extends readonly string[] = readonly string[],
> {
  readonly kind: K
  /** In UCUM, such as `s`, `By`, `1` or `{request}`. */
  readonly unit: string
  readonly description: string
  readonly attributes: A
  readonly processes: readonly ProcessKind[]
  /** The upper bounds of a histogram's buckets, without infinity. */
  readonly buckets: readonly number[] | undefined
}

interface Details<A extends readonly string[]> {
  unit: string
  description: string
  attributes: A
  processes: readonly ProcessKind[]
  buckets?: readonly number[]
}

const of =
  <K extends InstrumentKind>(kind: K) =>
  <const A extends readonly string[]>({ buckets, ...rest }: Details<A>): Instrument<K, A> => ({
    kind,
    ...rest,
    buckets,
  })

export const counter = of('counter')
export const histogram = of('histogram')
export const gauge = of('gauge')
export const total = of('total')

/** The suffixes that Prometheus' naming rules require for units; other units have none. */
const UNIT_SUFFIXES: Readonly<Record<string, string>> = { s: '_seconds', By: '_bytes', '1': '_ratio' }

/** Returns a metric's name in Prometheus' format, without the suffix for counters. */
export const familyName = (name: string, { unit }: Pick<Instrument, 'unit'>): string =>
  `${name.replaceAll('.', '_')}${UNIT_SUFFIXES[unit] ?? ''}`

/** Returns a metric's name as Prometheus stores it. */
export const exposedName = (name: string, instrument: Pick<Instrument, 'unit' | 'kind'>): string =>
  `${familyName(name, instrument)}${instrument.kind === 'counter' || instrument.kind === 'total' ? '_total' : ''}`
