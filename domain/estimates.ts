/** The average duration for models of similar size. */
export interface Sample {
  memory_mb: number
  ms: number
}

/**
 * Estimates a duration for a model of this size from models on the same runtime profile. Scales the duration of the
 * closest size proportionally, but never goes below the shortest one. Undefined without samples.
 */
export function estimateByKin(samples: readonly Sample[], memoryMb: number): number | undefined {
  const distance = ({ memory_mb }: Sample) =>
    Math.abs(Math.log(Math.max(1, memory_mb) / Math.max(1, memoryMb)))
  const nearest = samples.toSorted((a, b) => distance(a) - distance(b))[0]
  if (!nearest) return undefined
  const fastest = Math.min(...samples.map(({ ms }) => ms))
  return Math.max(fastest, nearest.ms * (Math.max(1, memoryMb) / Math.max(1, nearest.memory_mb)))
}

/**
 * Assumed rates in MB per second for a download, a read from disk, and one inference pass over the weights in memory.
 */
const ASSUMED = { download: 50, disk: 500, memory: 10_000 }

/** Estimates a duration from the size alone, for a step without samples. */
export function estimateBySize(what: 'cold' | 'cached' | 'inference', memoryMb: number): number {
  const ms = (rate: number) => (1_000 * Math.max(1, memoryMb)) / rate
  switch (what) {
    case 'cold':
      return ms(ASSUMED.download) + ms(ASSUMED.disk)
    case 'cached':
      return ms(ASSUMED.disk)
    case 'inference':
      return ms(ASSUMED.memory)
  }
}

/** The size of a model and the mean duration of its own loads; null without samples. */
export interface ModelFacts {
  model_key: string
  runtime_profile: string
  memory_mb: number
  cold_ms: number | null
  cached_ms: number | null
}

/** Mean durations of models of one runtime profile and similar size. */
export interface MeanDuration {
  runtime_profile: string
  what: 'cold' | 'cached' | 'inference'
  memory_mb: number
  ms: number
}

/**
 * Estimates how long a model takes to load or to answer: from its own samples, else from similar models, else from its
 * size.
 */
export function estimateMs(
  model: ModelFacts,
  what: MeanDuration['what'],
  kin: readonly MeanDuration[],
): number {
  const measuredMs = what === 'inference' ? null : what === 'cold' ? model.cold_ms : model.cached_ms
  if (measuredMs !== null) return measuredMs
  const samples = kin.filter((one) => one.runtime_profile === model.runtime_profile && one.what === what)
  return estimateByKin(samples, model.memory_mb) ?? estimateBySize(what, model.memory_mb)
}
