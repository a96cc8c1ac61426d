import type { DataPoint, Histogram } from '@opentelemetry/sdk-metrics'
import { at } from '../../domain/at.ts'

export type Attributes = Readonly<Record<string, string | number | undefined>>

/** Our values are cumulative since the process started; Prometheus doesn't need the time. */
const TIME: DataPoint<number>['startTime'] = [0, 0]

export const pointOf = <T>(value: T, attributes: Attributes): DataPoint<T> => ({
  startTime: TIME,
  endTime: TIME,
  attributes,
  value,
})

/** One time series of a counter. */
export class CounterSeries {
  #value = 0
  readonly #attributes: Attributes

  constructor(attributes: Attributes) {
    this.#attributes = attributes
  }

  add(value: number): void {
    this.#value += value
  }

  point(): DataPoint<number> {
    return pointOf(this.#value, this.#attributes)
  }
}

/** One time series of a histogram. */
export class HistogramSeries {
  readonly #attributes: Attributes
  readonly #boundaries: readonly number[]
  readonly #counts: Float64Array
  #sum = 0
  #count = 0

  constructor(attributes: Attributes, boundaries: readonly number[]) {
    this.#attributes = attributes
    this.#boundaries = boundaries
    this.#counts = new Float64Array(boundaries.length + 1)
  }

  record(value: number): void {
    const boundaries = this.#boundaries
    let bucket = 0
    while (bucket < boundaries.length && value > at(boundaries, bucket)) bucket += 1
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sum += value
    this.#count += 1
  }

  point(): DataPoint<Histogram> {
    const buckets = { boundaries: [...this.#boundaries], counts: [...this.#counts] }
    return pointOf({ buckets, sum: this.#sum, count: this.#count }, this.#attributes)
  }
}

/** The time series of one counter or histogram, by their attributes. */
export class SeriesTable<S extends CounterSeries | HistogramSeries> {
  readonly #names: readonly string[]
  readonly #create: (attributes: Attributes) => S
  readonly #series = new Map<string, S>()

  constructor(names: readonly string[], create: (attributes: Attributes) => S) {
    this.#names = names
    this.#create = create
    // Without attributes there is one series, which counts from 0.
    if (names.length === 0) this.with({})
  }

  with(given: Attributes): S {
    const attributes = Object.fromEntries(
      this.#names.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]])),
    )
    const key = JSON.stringify(attributes)
    let series = this.#series.get(key)
    if (!series) this.#series.set(key, (series = this.#create(attributes)))
    return series
  }

  points(): ReturnType<S['point']>[] {
    return [...this.#series.values()].map((series) => series.point() as ReturnType<S['point']>)
  }
}
