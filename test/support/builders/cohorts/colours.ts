/** Words that the tokenizer of tiny specialists was trained on or can spell. */
const COLOURS = ['red', 'blue', 'green', 'black', 'white', 'brown']
const THINGS = ['fox', 'dog', 'house', 'river', 'letter', 'number', 'capital', 'assistant']

const each = <T>(row: (colour: string, thing: string, n: number) => T): T[] =>
  COLOURS.flatMap((colour, i) => THINGS.map((thing, j) => row(colour, thing, i * THINGS.length + j)))

/** Returns question-answer pairs that a tiny model can learn to match. */
export const colourPairs = (): { anchor: string; positive: string }[] =>
  each((colour, thing) => ({ anchor: `which ${thing} is ${colour}`, positive: `a ${colour} ${thing}` }))

/** Returns the same pairs with a wrong answer of the same color. */
export const colourTriplets = (): { anchor: string; positive: string; negative: string }[] =>
  each((colour, thing, n) => ({
    anchor: `which ${thing} is ${colour}`,
    positive: `a ${colour} ${thing}`,
    negative: `a ${colour} ${THINGS[(n + 3) % THINGS.length]}`,
  }))

const KINDS: Readonly<Record<string, string>> = { red: 'warm', brown: 'warm', blue: 'cold', green: 'cold' }

/** Returns short texts labeled by their color: cold, none or warm. */
export const labelledColours = (): { text: string; label: string }[] =>
  each((colour, thing) => ({ text: `the ${colour} ${thing}`, label: KINDS[colour] ?? 'none' }))
