import { measure } from '../format.ts'

interface Verdict {
  label?: string | number | boolean
  probabilities?: Record<string, number>
}

/** Formats a prediction briefly: a rounded number, or a label with its probability. */
export function formatPrediction(prediction: unknown): string {
  const { label, probabilities } = Object(prediction) as Verdict
  if (label === undefined) return measure(prediction)
  const part = probabilities?.[String(label)]
  return typeof part === 'number' ? `${String(label)} (${(part * 100).toFixed(1)} %)` : String(label)
}
