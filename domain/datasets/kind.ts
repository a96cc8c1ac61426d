/** The leading bytes of each file type and the `storage_format` it belongs to. */
const KINDS: readonly { name: string; begins: readonly string[]; format?: string }[] = [
  { name: 'a Parquet file', begins: ['PAR1'], format: 'parquet' },
  { name: 'a zip archive', begins: ['PK\x03\x04'], format: 'hf_dataset' },
  { name: 'a gzip file', begins: ['\x1f\x8b'], format: 'hf_dataset' },
  { name: 'an Arrow file', begins: ['ARROW1', '\xff\xff\xff\xff'] },
]
const TAKEN =
  'storage_format accepts csv and jsonl (text in UTF-8), parquet, and hf_dataset (a zip or tar.gz of a saved dataset)'

/**
 * Returns an error if a file's first bytes show that it isn't of the declared format. The error doesn't quote the
 * bytes.
 */
export function misnamedReason(start: Buffer, format: string): string | undefined {
  const text = start.toString('latin1')
  const controls = start.filter(isControl).length
  const wantsText = format === 'csv' || format === 'jsonl'
  // Text can begin with any letters, including those of a file signature.
  if (wantsText && controls === 0) return undefined
  const kind = KINDS.find(({ begins }) => begins.some((one) => text.startsWith(one)))
  if (kind?.format === format) return undefined
  const isBinary = controls >= MANY_CONTROLS && text.includes('\0') && !UTF_16.test(text)
  const name = kind?.name ?? (wantsText && isBinary ? 'a binary file' : undefined)
  return name && `this is ${name}, not ${format}; ${TAKEN}`
}

/** Control characters other than whitespace; a text file has at most a stray one. */
const isControl = (byte: number): boolean => byte < 0x09 || (byte > 0x0d && byte < 0x20)
const MANY_CONTROLS = 4

/**
 * UTF-16 with a byte order mark, or with a NUL next to every Latin letter. The dataset readers report this encoding
 * themselves.
 */
const UTF_16 = /^(?:\xff\xfe|\xfe\xff|(?:[\t\n\r -~]\0){2}|(?:\0[\t\n\r -~]){2})/
