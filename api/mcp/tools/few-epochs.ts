import type { JsonObject } from '../tool.ts'

/** The epochs that a result may have: an agent reads the course of a loss from them, and they fit into its context. */
const MAX_EPOCHS = 100

/**
 * Returns metrics with at most 100 epochs, evenly distributed from the first to the last. Where epochs are left out,
 * `epochs_total` has their number.
 */
export function withFewEpochs(metrics: JsonObject): JsonObject {
  const { epochs } = metrics
  if (!Array.isArray(epochs) || epochs.length <= MAX_EPOCHS) return metrics
  const step = (epochs.length - 1) / (MAX_EPOCHS - 1)
  const few = Array.from({ length: MAX_EPOCHS }, (_, at) => epochs[Math.round(at * step)] as unknown)
  return { ...metrics, epochs: few, epochs_total: epochs.length }
}
