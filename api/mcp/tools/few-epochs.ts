import type { JsonObject } from '../tool.ts'

/**
 * The maximum number of epochs in a result: enough to show how a loss develops, and small enough for a model's context.
 */
const MAX_EPOCHS = 100

/**
 * Returns metrics with at most 100 epochs, evenly distributed from the first to the last. If epochs are left out,
 * `epochs_total` contains the total number.
 */
export function withFewEpochs(metrics: JsonObject): JsonObject {
  const { epochs } = metrics
  if (!Array.isArray(epochs) || epochs.length <= MAX_EPOCHS) return metrics
  const step = (epochs.length - 1) / (MAX_EPOCHS - 1)
  const few = Array.from({ length: MAX_EPOCHS }, (_, at) => epochs[Math.round(at * step)] as unknown)
  return { ...metrics, epochs: few, epochs_total: epochs.length }
}
