/** No name that a person mistypes is longer; longer ones would only cost time. */
const LONGEST = 64
/** So many names of a list are compared. */
const MOST_NAMES = 1_000
const MOST_EDITS = 3
/** The share of the longer name that may differ. */
const MOST_SHARE = 0.4

/** Returns the question whether a name that is known was meant; an empty text where none is near. */
export function didYouMean(typed: string, names: Iterable<string>): string {
  const near = nearestName(typed, names)
  return near === undefined ? '' : `did you mean "${near}"?`
}

/** Returns the name that is the fewest edits away, the first of several; undefined when none is near. */
function nearestName(typed: string, names: Iterable<string>): string | undefined {
  if (typed.length > LONGEST) return undefined
  let nearest: string | undefined
  let fewest = MOST_EDITS + 1
  let compared = 0
  for (const name of names) {
    if (compared++ === MOST_NAMES) break
    const longer = Math.max(name.length, typed.length)
    if (longer > LONGEST || Math.abs(name.length - typed.length) >= fewest) continue
    const edits = editsBetween(typed.toLowerCase(), name.toLowerCase())
    if (edits >= fewest || edits > MOST_SHARE * longer) continue
    nearest = name
    fewest = edits
  }
  return nearest
}

/** Counts the characters to add, drop, change or swap with their neighbour (optimal string alignment). */
function editsBetween(a: string, b: string): number {
  let twoBefore: number[] = []
  let before = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1]
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row[j] = Math.min(
        before[j]! + 1,
        row[j - 1]! + 1,
        before[j - 1]! + (isSame ? 0 : 1),
        isSwapped ? twoBefore[j - 2]! + 1 : Infinity,
      )
    }
    twoBefore = before
    before = row
  }
  return before[b.length]!
}
