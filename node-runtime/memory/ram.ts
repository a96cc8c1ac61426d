import { readFile } from 'node:fs/promises'
import { freemem } from 'node:os'

const MB = 1024 * 1024
/** The share of RAM that stays free when a model is put to sleep, so that loads and runs can start. */
const MIN_FREE_SHARE = 0.1
/** Sleeping models are stopped while less than this share of RAM is free. */
const PRESSURE_SHARE = 0.05

/** Returns how much RAM programs can still allocate, in MB. */
export async function availableRamMb(): Promise<number> {
  const limits = await Promise.all([memAvailable(), cgroupLimit()])
  return Math.min(...limits) / MB
}

async function memAvailable(): Promise<number> {
  const text = await readFile('/proc/meminfo', 'utf8').catch(() => '')
  const kilobytes = /MemAvailable:\s+(\d+)/.exec(text)?.[1]
  return kilobytes ? Number(kilobytes) * 1024 : freemem()
}

async function cgroupLimit(): Promise<number> {
  const text = await readFile('/sys/fs/cgroup/memory.max', 'utf8').catch(() => 'max')
  return /^\d+/.test(text) ? Number.parseInt(text, 10) : Number.POSITIVE_INFINITY
}

export interface SleepRamOptions {
  /** The RAM of the machine in MB. */
  totalMb: number
  /** The share of it that models may use for sleeping, in percent; 0 if no model may sleep. */
  pct: number
  freeMb?: () => Promise<number>
}

/** The RAM in which models keep their weights while they sleep. */
export class SleepRam {
  readonly #totalMb: number
  readonly #budgetMb: number
  readonly #freeMb: () => Promise<number>

  constructor({ totalMb, pct, freeMb = availableRamMb }: SleepRamOptions) {
    this.#totalMb = totalMb
    this.#budgetMb = Math.floor((totalMb * pct) / 100)
    this.#freeMb = freeMb
  }

  /** Returns whether a model of this size could sleep if no other model did. */
  couldHold(mb: number): boolean {
    return mb <= this.#budgetMb
  }

  /** Returns whether a model that needs `newMb` more can sleep while sleeping models use `usedMb`. */
  async fits(newMb: number, usedMb: number): Promise<boolean> {
    if (usedMb + newMb > this.#budgetMb) return false
    return (await this.#freeMb()) - newMb >= MIN_FREE_SHARE * this.#totalMb
  }

  /** Returns whether sleeping models should be stopped to free RAM. */
  async isScarce(): Promise<boolean> {
    return (await this.#freeMb()) < PRESSURE_SHARE * this.#totalMb
  }
}
