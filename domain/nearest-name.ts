/** Mistyped names aren't longer than this; comparing longer ones would only cost time. */
const MAX_LENGTH = 64
/** The maximum number of names from a list that are compared. */
const MAX_NAMES = 1_000
const MAX_EDITS = 3
/** The largest share of the longer name that may differ. */
const MAX_SHARE = 0.4
/**
 * The maximum number of mistyped names per request that are compared. Each is compared with all names, which blocks the
 * event loop.
 */
const MAX_TYPED = 20

/** Returns a function that suggests names for the mistyped names of one request, up to `MAX_TYPED` of them. */
export function asker(names: readonly string[]): (typed: string) => string {
  const questions = new Map<string, string>()
  return (typed) => {
    const before = questions.get(typed)
    if (before !== undefined || questions.size >= MAX_TYPED) return before ?? ''
    const question = didYouMean(typed, names)
    questions.set(typed, question)
    return question
  }
}

/** Returns a question that suggests a known name; an empty string when none is close. */
export function didYouMean(typed: string, names: Iterable<string>): string {
  const near = nearestName(typed, names)
  return near === undefined ? '' : `did you mean "${near}"?`
}

/** Returns the name with the fewest edits, the first in a tie; undefined when none is close. */
function nearestName(typed: string, names: Iterable<string>): string | undefined {
  if (typed.length > MAX_LENGTH) return undefined
  let nearest: string | undefined
  let fewest = MAX_EDITS + 1
  let compared = 0
  for (const name of names) {
    if (compared++ === MAX_NAMES) break
    const longer = Math.max(name.length, typed.length)
    if (longer > MAX_LENGTH || Math.abs(name.length - typed.length) >= fewest) continue
    const most = Math.min(fewest - 1, Math.floor(MAX_SHARE * longer))
    const edits = editsBetween(typed.toLowerCase(), name.toLowerCase(), most)
    if (edits > most) continue
    nearest = name
    fewest = edits
  }
  return nearest
}

/**
 * Counts the insertions, deletions, substitutions and swaps of adjacent characters between two names (optimal string
 * alignment). Infinite when there are more than `most`; positions further apart than that are skipped.
 */
function editsBetween(a: string, b: string, most: number): number {
  let twoBefore: number[] = []
  let before = Array.from({ length: b.length + 1 }, (_, j) => j)
  let fewestBefore = 0
  for (let i = 1; i <= a.length; i++) {
    const row: number[] = Array.from({ length: b.length + 1 }, () => Infinity)
    row[0] = i
    let fewest = i
    for (let j = Math.max(1, i - most); j <= Math.min(b.length, i + most); j++) {
      const isSame = a[i - 1] === b[j - 1]
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const edits = Math.min(
        (before[j] ?? Infinity) + 1,
        (row[j - 1] ?? Infinity) + 1,
        (before[j - 1] ?? Infinity) + (isSame ? 0 : 1),
        isSwapped ? (twoBefore[j - 2] ?? Infinity) + 1 : Infinity,
      )
      row[j] = edits
      fewest = Math.min(fewest, edits)
    }
    // A swap continues from the row before the previous one.
    if (Math.min(fewest, fewestBefore) > most) return Infinity
    fewestBefore = fewest
    twoBefore = before
    before = row
  }
  return before[b.length] ?? Infinity
}
