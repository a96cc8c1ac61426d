/**
 * The memory history of a node: for each window, the size of its buckets and how long they are stored, in seconds. A
 * node has at most 120 + 156 + 192 = 468 buckets at a time.
 */
export const MEMORY_WINDOWS = {
  hour: { bucketS: 60, windowS: 3_600, keepS: 7_200 },
  day: { bucketS: 600, windowS: 86_400, keepS: 93_600 },
  week: { bucketS: 3_600, windowS: 604_800, keepS: 691_200 },
} as const

/** The time that a memory history covers. */
export type MemoryWindow = keyof typeof MEMORY_WINDOWS

/** Returns the start of the bucket that contains a time, in epoch milliseconds. */
export const bucketStart = (atMs: number, bucketS: number): number => atMs - (atMs % (bucketS * 1_000))
