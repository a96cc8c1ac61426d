/** One measurement of one side. */
export interface Figure {
  value: number
  /** The peak memory of its processes: of the GPU, or RAM on a CPU. Undefined if the driver does not report it. */
  memoryMb?: number | undefined
}

/** Which of the two sides a section measures: Hearth, or the bare libraries. */
export type Side = 'ours' | 'reference'

/** One line of the table. */
export interface Row {
  /** The name of its section. */
  section: string
  what: string
  unit: 'tokens/s' | 'texts/s' | 'ms'
  /** The reference that Hearth is compared with. */
  referenceName: string
  ours?: Figure
  reference?: Figure
  /** Why a side has no figure, and what else a reader should know. */
  notes: string[]
}

const HEADER = [
  'what',
  'Hearth',
  'reference',
  'ratio',
  'memory of Hearth',
  'memory of the reference',
  'notes',
]

/** Returns how many times as fast as the reference Hearth is, whatever the unit. */
function ratioOf({ unit, ours, reference }: Row): number | undefined {
  if (!ours || !reference) return undefined
  return unit === 'ms' ? reference.value / ours.value : ours.value / reference.value
}

/** Returns the table in Markdown. */
export function markdownOf(rows: readonly Row[]): string {
  const lines = [HEADER, HEADER.map(() => '---'), ...rows.map(cellsOf)]
  return lines
    .map((cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`)
    .join('\n')
}

/** Returns a row for the JSON file. */
export function recordOf(row: Row): Record<string, unknown> {
  const { section, what, unit, referenceName, ours, reference, notes } = row
  return {
    section,
    what,
    unit,
    ours: ours?.value ?? null,
    reference: reference?.value ?? null,
    reference_name: referenceName,
    ratio: ratioOf(row) ?? null,
    ours_peak_mb: ours?.memoryMb ?? null,
    reference_peak_mb: reference?.memoryMb ?? null,
    notes,
  }
}

function cellsOf(row: Row): string[] {
  const { what, unit, referenceName, ours, reference, notes } = row
  const value = (figure: Figure | undefined) => (figure ? `${numberOf(figure.value)} ${unit}` : '–')
  const memory = (figure: Figure | undefined) =>
    figure?.memoryMb === undefined ? '–' : `${numberOf(figure.memoryMb)} MB`
  return [
    what,
    value(ours),
    `${value(reference)} (${referenceName})`,
    ratioOf(row)?.toFixed(2) ?? '–',
    memory(ours),
    memory(reference),
    notes.join('; ').replaceAll(/\s+/g, ' '),
  ]
}

const numberOf = (value: number): string =>
  value.toLocaleString('en-US', { maximumFractionDigits: value < 100 ? 1 : 0 })
