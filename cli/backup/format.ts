import type { KeyUse, Partition, SequencePosition, TableShape } from '../../db/backup/catalog.ts'

/** Raised when older versions of Hearth could not read a backup any more. */
export const FORMAT_VERSION = 1
export const FORMAT = 'hearth-backup'

/** The names of the archive's entries, in their order. */
export const ENTRY = {
  header: 'backup.json',
  table: 'tables/',
  sequences: 'sequences.json',
  listing: 'listing/',
  object: 'objects/',
  trailer: 'end.json',
} as const

/** The first entry: what is needed to decide whether a restore is possible. */
export interface BackupHeader {
  format: typeof FORMAT
  format_version: number
  hearth_version: string
  created_at: string
  /** The names of the applied migrations, oldest first. */
  migrations: readonly string[]
  tables: readonly TableShape[]
  partitions: readonly Partition[]
  /** The ids of the encryption keys that the data needs; the keys themselves are never stored. */
  keys: readonly KeyUse[]
  /** True if the file includes the bytes of the objects, not only their list. */
  has_objects: boolean
}

/** The rows of one table. `sha256` is the digest of their text in COPY's format. */
export interface TableSummary {
  name: string
  rows: number
  bytes: number
  sha256: string
}

/** One object of the object store. */
export interface ObjectEntry {
  key: string
  size_bytes: number
  content_type: string
  /** Absent if the store does not know it. */
  sha256?: string
}

/** The last entry. A file without it is incomplete. */
export interface BackupTrailer {
  tables: readonly TableSummary[]
  objects: { count: number; bytes: number }
  /** The digest of the names, sizes and bytes of all earlier entries, then of this entry's other members. */
  archive_sha256: string
}

/** The content of the entry with the sequences. */
export type Sequences = readonly SequencePosition[]

/** Returns the newest migration, which names the level of the schema. */
export const levelOf = ({ migrations }: Pick<BackupHeader, 'migrations'>): string =>
  migrations.at(-1) ?? 'none'
