import type { Epoch } from '../../types.ts'

export interface Curve {
  name: string
  values: (number | null)[]
}

const NAMES: Record<string, string> = {
  train_loss: 'Training loss',
  val_loss: 'Validation loss',
  eval_loss: 'Evaluation loss',
  eval_perplexity: 'Evaluation perplexity',
}

/** Returns the losses of a run as lines. Perplexity has another scale, so it's listed with the other metrics. */
export function lossCurves(epochs: readonly Epoch[]): { x: number[]; curves: Curve[] } {
  const keys = ['train_loss', 'val_loss', 'eval_loss'].filter((key) =>
    epochs.some((epoch) => typeof epoch[key] === 'number'),
  )
  return {
    x: epochs.map(({ epoch }) => epoch),
    curves: keys.map((key) => ({
      name: NAMES[key] ?? key,
      values: epochs.map((epoch) => epoch[key] ?? null),
    })),
  }
}

/** Aligns the losses of several runs on a common x. */
export function compareCurves(runs: readonly { name: string; epochs: readonly Epoch[] }[], key: string) {
  const x = [...new Set(runs.flatMap(({ epochs }) => epochs.map(({ epoch }) => epoch)))].toSorted(
    (a, b) => a - b,
  )
  const curves = runs.map(({ name, epochs }) => {
    const values = new Map(epochs.map((epoch) => [epoch.epoch, epoch[key] ?? null]))
    return { name, values: x.map((at) => values.get(at) ?? null) }
  })
  return { x, curves }
}

/** Returns the epoch with the lowest validation loss, if training continued long after it. */
export function bestOf(epochs: readonly Epoch[]): Epoch | undefined {
  const last = epochs.at(-1)
  let best: Epoch | undefined
  for (const epoch of epochs)
    if (typeof epoch.val_loss === 'number' && epoch.val_loss < (best?.val_loss ?? Number.POSITIVE_INFINITY))
      best = epoch
  return best && last && best.epoch < LONG_BEFORE * last.epoch ? best : undefined
}
const LONG_BEFORE = 0.8
